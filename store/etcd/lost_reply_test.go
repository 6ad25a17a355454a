package etcd_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// The reply to any one request of a candidacy is lost. The candidacy goes on as if the reply had come, with one lease
// and one ballot.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	client := operator(t)
	for name, texts := range map[string][]string{
		"grant":       {"LeaseGrant"},
		"enter":       {"Txn", "request_put", "_ballots/"},
		"acknowledge": {"Txn", `key:"leadership/test`, `value:"own"`},
		"withdraw":    {"Txn", "request_delete_range", "_ballots/"},
		"look":        {readTxn, "_ballots/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			election := newElection()
			tp := newTap(t)
			st := open(t, etcd.Config{Client: tp.client, TTL: long})
			lost := tp.catch(t, loseReply, texts...)
			b := castFirst(t, st, election, "ballot")
			require.Equal(t, []string{"ballot"}, values(t, st, election))
			leader, err := b.Acknowledge(soon(t), "own")
			if err != nil {
				require.ErrorIs(t, err, store.ErrUnknownOutcome)
				leader = acknowledge(t, b, "own")
			}
			seen, err := storetest.Leader(soon(t), st, election, nil)
			require.NoError(t, err)
			require.Equal(t, leader, seen)
			second := cast(t, st, election, "second")
			require.NoError(t, b.Withdraw(soon(t)))
			require.NoError(t, second.Wait(soon(t)))
			require.NoError(t, receive(t, lost.arrived, "the request whose reply was lost"))
			require.Equal(t, []string{"second"}, values(t, st, election))
			require.Len(t, keys(t, client, ackKey(election)), 1, "and nothing else")
			_, lease := ballotOf(t, client, election, "second")
			require.NoError(t, st.Close())
			require.Empty(t, keys(t, client, ackKey(election)))
			info, err := client.TimeToLive(soon(t), lease)
			require.NoError(t, err)
			require.EqualValues(t, -1, info.TTL, "the lease is gone")
		})
	}
}

// The request of an abandoned campaign arrives after the store has searched for the ballot and removed it: no ballot
// stands.
func TestLateRequestOfAnAbandonedCampaign(t *testing.T) {
	t.Parallel()
	client := operator(t)
	election := newElection()
	tp := newTap(t)
	st := open(t, etcd.Config{Client: tp.client, TTL: long})
	other := newElection()
	castFirst(t, st, other, "so that there is a lease")
	_, lease := ballotOf(t, client, other, "so that there is a lease")
	marks := fmt.Sprintf("leadership/_void/%x-", lease)
	ctx, cancel := context.WithCancel(soon(t))
	late := tp.catch(t, hold, "Txn", "request_put", election+"/_ballots/")
	again := tp.catch(t, holdReply, "Txn", "request_put", election+"/_ballots/")
	campaign := make(chan error, 1)
	go func() { _, err := st.Cast(ctx, election, "abandoned"); campaign <- err }()
	receive(t, late.caught, "the request")
	receive(t, again.caught, "the same again")
	cancel()
	require.ErrorIs(t, receive(t, campaign, "the end of the campaign"), context.Canceled)
	eventually(t, func() bool { return len(values(t, st, election)) == 0 }, "the ballot is removed")
	late.letGo()
	require.NoError(t, receive(t, late.arrived, "the late request"))
	require.Empty(t, values(t, st, election))
	require.Len(t, keys(t, client, marks), 1, "a mark keeps it from being cast")
	castFirst(t, st, election, "next")
	require.NoError(t, st.Close())
	require.Empty(t, keys(t, client, ackKey(election)))
	require.Empty(t, keys(t, client, marks), "the mark goes with the lease")
}

// A resignation arrives a second time, after the candidate has entered and acknowledged again: it changes nothing.
func TestLateResignation(t *testing.T) {
	t.Parallel()
	election := newElection()
	tp := newTap(t)
	st := open(t, etcd.Config{Client: tp.client, TTL: long})
	b := castFirst(t, st, election, "own")
	acknowledge(t, b, "own")
	late := tp.catch(t, hold, "Txn", "request_delete_range", election+"/_ballots/")
	require.NoError(t, b.Withdraw(soon(t)), "the second request")
	newer := castFirst(t, st, election, "own")
	leader := acknowledge(t, newer, "own")
	late.letGo()
	require.NoError(t, receive(t, late.arrived, "the first request"))
	require.NoError(t, b.Withdraw(soon(t)))
	seen, err := storetest.Leader(soon(t), st, election, nil)
	require.NoError(t, err)
	require.Equal(t, leader, seen)
	require.Equal(t, []string{"own"}, values(t, st, election))
	require.NoError(t, newer.Err())
}

// An acknowledgement that arrives after the resignation makes no leader.
func TestLateAcknowledgement(t *testing.T) {
	t.Parallel()
	election := newElection()
	tp := newTap(t)
	st := open(t, etcd.Config{Client: tp.client, TTL: long})
	b := castFirst(t, st, election, "own")
	late := tp.catch(t, hold, "Txn", `value:"own"`, "request_put")
	_, err := b.Acknowledge(soon(t), "own")
	require.ErrorIs(t, err, store.ErrUnknownOutcome)
	require.NoError(t, b.Withdraw(soon(t)))
	late.letGo()
	require.NoError(t, receive(t, late.arrived, "the acknowledgement"))
	leader, err := storetest.Leader(soon(t), st, election, nil)
	require.NoError(t, err)
	require.Zero(t, leader)
}

// No answers arrive for some time. When the line works again, everything requested is there once or not at all.
func TestRepliesLostForAWhile(t *testing.T) {
	t.Parallel()
	client := operator(t)
	network := conformance.NewNetwork()
	st := open(t, etcd.Config{Dial: network.Dial, TTL: middling})
	for name, work := range map[string]func(election string, b store.Ballot) error{
		"enter": func(election string, _ store.Ballot) error {
			_, err := st.Cast(within(t, middling/4), election, "abandoned")
			return err
		},
		"acknowledge": func(_ string, b store.Ballot) error {
			_, err := b.Acknowledge(within(t, middling/4), "lost")
			return err
		},
		"withdraw": func(_ string, b store.Ballot) error { return b.Withdraw(within(t, middling/4)) },
	} {
		election := newElection()
		b := castFirst(t, st, election, "own")
		network.LoseReplies()
		require.Error(t, work(election, b), name)
		network.Heal()
		if name == "withdraw" {
			eventually(t, func() bool { return len(keys(t, client, ballotKeys(election))) == 0 }, "the ballot goes")
		}
		other := cast(t, open(t, etcd.Config{TTL: middling}), election, "other")
		_ = b.Withdraw(soon(t))
		require.NoError(t, other.Wait(soon(t)), name)
		eventually(t, func() bool { return len(keys(t, client, ballotKeys(election))) == 1 }, "one ballot, %s", name)
	}
}

// If the context of a call ends before the answer comes, the error says that the request might have been carried out.
func TestContextEndsBeforeTheReply(t *testing.T) {
	t.Parallel()
	election := newElection()
	tp := newTap(t)
	st := open(t, etcd.Config{Client: tp.client, TTL: long})
	b := castFirst(t, st, election, "own")
	endsEarly := func(kind string, call func(ctx context.Context) error) {
		reply := tp.catch(t, holdReply, "Txn", kind, election)
		ctx, cancel := context.WithCancel(soon(t))
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		receive(t, reply.caught, "the reply")
		cancel()
		err := receive(t, ended, "the end of the call")
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
		require.ErrorIs(t, err, context.Canceled)
	}
	endsEarly("request_put", func(ctx context.Context) error { _, err := b.Acknowledge(ctx, "own"); return err })
	endsEarly("request_delete_range", b.Withdraw)
	require.Empty(t, values(t, st, election))
}

// An acknowledgement and a withdrawal run at the same time: nothing is left of either, in any order.
func TestAcknowledgeWhileWithdrawing(t *testing.T) {
	t.Parallel()
	election, op := newElection(), operator(t)
	st := open(t, etcd.Config{TTL: long})
	for range 50 {
		b := castFirst(t, st, election, "own")
		acknowledged := make(chan error, 1)
		go func() { _, err := b.Acknowledge(soon(t), "own"); acknowledged <- err }()
		require.NoError(t, b.Withdraw(soon(t)))
		if err := receive(t, acknowledged, "the end of the acknowledgement"); err != nil {
			require.ErrorIs(t, err, store.ErrLost)
		}
		require.Empty(t, keys(t, op, ackKey(election)))
	}
}
