package zookeeper_test

import (
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// A ballot and its acknowledgement are removed in one transaction, whatever an operator has made of one of the two. It
// is tried again until both have gone, but for what is not the ballot's own.
func TestBallotIsRemovedWithItsAcknowledgement(t *testing.T) {
	conn := operator(t)
	for name, c := range map[string]struct {
		before  func(t *testing.T, ballot, ack string)
		unknown bool // whether the ballot has acknowledged
		left    []string
	}{
		"both stand":     {before: func(*testing.T, string, string) {}},
		"both may stand": {before: func(*testing.T, string, string) {}, unknown: true},
		"the ballot is gone": {before: func(t *testing.T, ballot, _ string) {
			require.NoError(t, conn.Delete(ballot, -1))
		}},
		"the acknowledgement is gone": {before: func(t *testing.T, _, ack string) {
			require.NoError(t, conn.Delete(ack, -1))
		}},
		"another's is there, with nodes below it": {before: func(t *testing.T, _, ack string) {
			require.NoError(t, conn.Delete(ack, -1))
			makePath(t, conn, ack+"/below")
		}, left: []string{"leader_ack"}},
	} {
		t.Run(name, func(t *testing.T) {
			election := newElection()
			st, tp := openTapped(t)
			session, e := enter(t, st, election, "ours")
			revision, err := session.Acknowledge(soon(t), e, "ours")
			require.NoError(t, err)
			c.before(t, e.Key, dir(election)+"/leader_ack")
			if c.unknown {
				revision = 0
			}
			removal := engine.Removal{Entry: e, Led: true, Acknowledged: true, Revision: revision, Alone: func() bool { return true }}

			lost := tp.catch(t, loseRequest, opMulti, e.Key)
			require.ErrorIs(t, session.Remove(soon(t), removal), store.ErrUnknownOutcome)
			receive(t, lost.caught, "the request")
			require.Zero(t, tp.Count(opDelete, dir(election)), "one without the other")
			require.NoError(t, session.Remove(soon(t), removal))
			require.ElementsMatch(t, c.left, list(t, conn, dir(election)))
		})
	}
}

// The acknowledgement changes between the read that finds it and the transaction that removes it: nothing is removed,
// and the next try removes both.
func TestAcknowledgementChangesBeforeItsRemoval(t *testing.T) {
	election := newElection()
	conn := operator(t)
	st, tp := openTapped(t)
	session, e := enter(t, st, election, "ours")
	_, err := session.Acknowledge(soon(t), e, "ours")
	require.NoError(t, err)
	removal := engine.Removal{Entry: e, Led: true, Acknowledged: true, Alone: func() bool { return true }}
	request := tp.catch(t, hold, opMulti, e.Key)
	removed := make(chan error, 1)
	go func() { removed <- session.Remove(soon(t), removal) }()
	receive(t, request.caught, "the request")
	_, err = conn.Set(dir(election)+"/leader_ack", []byte("changed"), -1)
	require.NoError(t, err)
	request.letGo()
	require.ErrorIs(t, receive(t, removed, "the removal"), store.ErrUnavailable)
	require.Len(t, list(t, conn, dir(election)), 2)
	require.NoError(t, session.Remove(soon(t), removal))
	require.Empty(t, list(t, conn, dir(election)))
}

// The server of a new session might be behind what an earlier one has shown. So a read of the leader waits for the
// session's first confirmation. Here none is answered.
func TestLeaderIsReadAfterTheFirstConfirmation(t *testing.T) {
	election := newElection()
	tp := newTap(t, nil)
	var unanswered []*catch
	for range 100 { // more than a few connections send
		unanswered = append(unanswered, tp.catch(t, holdReply, opMulti, theRoot))
	}
	st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long, Dial: tp.Dial})
	receive(t, unanswered[0].caught, "a confirmation")
	read := func() error {
		watch, err := st.Driver().Leader(soon(t), election, func(engine.News) {})
		if err == nil {
			watch.Stop()
		}
		return err
	}
	require.ErrorIs(t, read(), store.ErrUnavailable)
	require.Zero(t, tp.Count(opGetData, dir(election)))
	for _, c := range unanswered {
		c.letGo()
	}
	eventually(t, func() bool { return read() == nil }, "the leader is read")
}
