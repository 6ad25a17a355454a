package zookeeper_test

import (
	"context"
	"errors"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// A ballot and its acknowledgement are removed, whatever an operator has changed of one of the two, and in one transaction
// if the acknowledgement is known. The removal is tried again until both are gone. Nodes that are not the ballot's stay.
func TestBallotIsRemovedWithItsAcknowledgement(t *testing.T) {
	t.Parallel()
	conn := operator(t)
	for name, c := range map[string]struct {
		before  func(t *testing.T, ballot, ack string)
		unknown bool // whether the ballot has acknowledged
		others  bool // another ballot of the session might have acknowledged
		left    []string
	}{
		"both stand":     {before: func(*testing.T, string, string) {}},
		"both may stand": {before: func(*testing.T, string, string) {}, unknown: true},
		"the ballot is gone": {before: func(t *testing.T, ballot, _ string) {
			require.NoError(t, conn.Delete(ballot, -1))
		}},
		"both are gone": {before: func(t *testing.T, ballot, ack string) {
			_, err := conn.Multi(&zk.DeleteRequest{Path: ack, Version: -1}, &zk.DeleteRequest{Path: ballot, Version: -1})
			require.NoError(t, err)
		}, unknown: true},
		"the ballot is gone, and perhaps the acknowledgement": {before: func(t *testing.T, ballot, _ string) {
			require.NoError(t, conn.Delete(ballot, -1))
		}, unknown: true},
		"the acknowledgement is gone": {before: func(t *testing.T, _, ack string) {
			require.NoError(t, conn.Delete(ack, -1))
		}},
		"another's is there, with nodes below it": {before: func(t *testing.T, _, ack string) {
			require.NoError(t, conn.Delete(ack, -1))
			makePath(t, conn, ack+"/below")
		}, left: []string{"leader_ack"}},
		"the ballot is gone, and perhaps another leads": {before: func(t *testing.T, ballot, ack string) {
			_, err := conn.Multi(&zk.DeleteRequest{Path: ballot, Version: -1}, &zk.DeleteRequest{Path: ack, Version: -1},
				&zk.CreateRequest{Path: ack, Acl: world, Flags: zk.FlagEphemeral})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, conn.Delete(ack, -1)) })
		}, unknown: true, left: []string{"leader_ack"}},
		"the ballot is gone, and perhaps another of the session leads": {before: func(t *testing.T, ballot, _ string) {
			require.NoError(t, conn.Delete(ballot, -1))
		}, unknown: true, others: true, left: []string{"leader_ack"}},
		"the ballot is gone, and the acknowledgement is a later one": {before: func(t *testing.T, ballot, ack string) {
			require.NoError(t, conn.Delete(ballot, -1))
			_, err := conn.Set(ack, []byte("of another ballot of the session"), -1)
			require.NoError(t, err)
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
			removal := engine.Removal{Entry: e, Led: true, Acknowledged: true, Revision: revision, Alone: func() bool { return !c.others }}

			op := opMulti
			if c.unknown {
				op = opDelete
			}
			lost := tp.catch(t, loseRequest, op, e.Key)
			require.ErrorIs(t, session.Remove(soon(t), removal), store.ErrUnknownOutcome)
			receive(t, lost.caught, "the request")
			eventually(t, func() bool {
				err := session.Remove(soon(t), removal)
				if !errors.Is(err, store.ErrUnavailable) { // the driver does not wait for long
					require.NoError(t, err)
				}
				return err == nil
			}, "the removal")
			if name == "both stand" {
				require.Zero(t, tp.Count(opDelete, dir(election)), "one without the other")
			}
			require.ElementsMatch(t, c.left, list(t, conn, dir(election)))
		})
	}
}

// The acknowledgement changes between the read that finds it and the request that removes it: it is read again.
func TestAcknowledgementChangesBeforeItsRemoval(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	st, tp := openTapped(t)
	session, e := enter(t, st, election, "ours")
	_, err := session.Acknowledge(soon(t), e, "ours")
	require.NoError(t, err)
	removal := engine.Removal{Entry: e, Led: true, Acknowledged: true, Alone: func() bool { return true }}
	request := tp.catch(t, hold, opDelete, dir(election)+"/leader_ack")
	removed := make(chan error, 1)
	go func() { removed <- session.Remove(soon(t), removal) }()
	receive(t, request.caught, "the request")
	_, err = conn.Set(dir(election)+"/leader_ack", []byte("changed"), -1)
	require.NoError(t, err)
	request.letGo()
	require.NoError(t, receive(t, removed, "the removal"))
	require.Empty(t, list(t, conn, dir(election)))
}

// An acknowledgement is under way when its ballot is removed. If it arrives before, it is removed too; after the ballot has
// gone it is refused.
func TestAcknowledgementArrivesAtTheRemoval(t *testing.T) {
	t.Parallel()
	conn := operator(t)
	for name, after := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			election := newElection()
			st, tp := openTapped(t)
			session, e := enter(t, st, election, "ours")
			late := tp.catch(t, hold, opMulti, "leader_ack")
			ctx, cancel := context.WithCancel(soon(t))
			acknowledged := make(chan error, 1)
			go func() {
				_, err := session.Acknowledge(ctx, e, "ours")
				acknowledged <- err
			}()
			receive(t, late.caught, "the acknowledgement")
			cancel()
			require.ErrorIs(t, receive(t, acknowledged, "the end of the call"), store.ErrUnknownOutcome)

			removal := engine.Removal{Entry: e, Led: true, Acknowledged: true, Alone: func() bool { return true }}
			if after {
				require.NoError(t, session.Remove(soon(t), removal))
				late.letGo()
				_, err := session.Acknowledge(soon(t), e, "ours") // its answer comes behind that of the late one
				require.ErrorIs(t, err, engine.ErrGone)
				require.Empty(t, list(t, conn, dir(election)))
				return
			}
			request := tp.catch(t, hold, opDelete, e.Key)
			removed := make(chan error, 1)
			go func() { removed <- session.Remove(soon(t), removal) }()
			receive(t, request.caught, "the removal")
			late.letGo()
			eventually(t, func() bool { return len(list(t, conn, dir(election))) == 2 }, "the acknowledgement arrives")
			request.letGo()
			require.NoError(t, receive(t, removed, "the removal"))
			require.Empty(t, list(t, conn, dir(election)))
		})
	}
}

// Another client deletes the leader's ballot; its session lives, and with it the acknowledgement. While the old leader
// removes it, its successor acknowledges: the successor's acknowledgement stays.
func TestCleaningUpLeavesTheSuccessorAlone(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	st, tp := openTapped(t)
	other, otherTap := openTapped(t)
	first := castFirst(t, st, election, "first")
	acknowledge(t, first, "first")
	ballot := find(t, conn, election, "first")
	watched := otherTap.catch(t, holdReply, opGetData, ballot)
	second := cast(t, other, election, "second")
	receive(t, watched.arrived, "the ballot ahead")
	require.NoError(t, conn.Delete(ballot, -1))
	watched.letGo()
	lost(t, first)
	require.NoError(t, second.Wait(soon(t)))

	removal := tp.catch(t, hold, opDelete, "leader_ack")
	withdrawn := make(chan error, 1)
	go func() { withdrawn <- first.Withdraw(soon(t)) }()
	select {
	case <-removal.caught:
	case err := <-withdrawn: // it removes nothing, or with something that only its own acknowledgement passes
		require.NoError(t, err)
		withdrawn <- nil
	}
	leader := acknowledge(t, second, "second")
	removal.letGo()
	require.NoError(t, receive(t, withdrawn, "the resignation"))

	seen, err := storetest.Leader(soon(t), other, election, nil)
	require.NoError(t, err)
	require.Equal(t, leader, seen, "the one who was leader removed the new leader's acknowledgement")
}

// If the store may not read the node at the acknowledgement's path, the node is another client's: it stays, and the ballot is
// removed.
func TestRemovalWithoutPermissions(t *testing.T) {
	t.Parallel()
	conn, election := operator(t), newElection()
	session, e := enter(t, open(t, zookeeper.Config{}), election, "ours")
	_, err := conn.Create(dir(election)+"/leader_ack", nil, zk.FlagEphemeral, zk.DigestACL(zk.PermAll, "other", "p"))
	require.NoError(t, err)
	require.NoError(t, session.Remove(soon(t), engine.Removal{Entry: e, Led: true, Acknowledged: true}))
	require.Equal(t, []string{"leader_ack"}, list(t, conn, dir(election)))
}
