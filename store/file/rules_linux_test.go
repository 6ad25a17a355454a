package file

import (
	"os"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestVoidRefusesALateRequest: a request to enter is carried out after its nonce was made void.
func TestVoidRefusesALateRequest(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	s, n := sessionOf(t, d), engine.Nonce{Name: unique(), Turn: 1}
	require.NoError(t, s.Void(soon(t), "e", n))
	_, err := s.Enter(soon(t), "e", n, "value")
	require.ErrorIs(t, err, store.ErrUnavailable)
	list, err := d.Ballots(soon(t), "e")
	require.NoError(t, err)
	require.Empty(t, list)
}

// TestLastAcknowledgementStays: until there are two later ones. A listing that is under way while an acknowledgement
// replaces another might show neither, and no leader.
func TestLastAcknowledgementStays(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	s := &enterer{t: t, s: sessionOf(t, d)}
	e := s.enter()
	var all []uint64
	for range 4 {
		revision, err := s.s.Acknowledge(soon(t), e, "value")
		require.NoError(t, err)
		all = append(all, revision)
		names, err := d.ops.list(d.dirOf("e").acks())
		require.NoError(t, err)
		require.Equal(t, all[max(len(all)-2, 0):], numbered(names))
	}
}

// TestMovedDirectoryIsNoticed: what a follower watches is moved away: the acknowledgements of its election, or what is
// there of its path.
func TestMovedDirectoryIsNoticed(t *testing.T) {
	for name, parent := range map[string]bool{"the acknowledgements": false, "a parent": true} {
		t.Run(name, func(t *testing.T) {
			c := configIn(t.TempDir() + "/store")
			d := driverWith(t, c, kernel{})
			(&enterer{t: t, s: sessionOf(t, d)}).enter()
			election, moved := "e", d.dirOf("e").acks()
			if parent {
				election, moved = "e/below", string(d.dirOf("e"))
			}
			over := make(chan struct{}, 10)
			w, err := d.WatchLeader(soon(t), election, func(n engine.News) {
				if n.Over {
					over <- struct{}{}
				}
			})
			require.NoError(t, err)
			defer w.Stop()
			require.NoError(t, os.Rename(moved, c.Directory+"/moved"))
			select {
			case <-over:
			case <-soon(t).Done():
				t.Fatal("nothing is told")
			}
		})
	}
}

// TestAbandonedSessionIsNotMade: a session whose caller has left before the request is carried out.
func TestAbandonedSessionIsNotMade(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	require.NoError(t, d.make())
	s := &session{driver: d, id: unique(), fd: -1, ended: make(chan struct{})}
	require.NoError(t, s.remove())
	require.ErrorIs(t, s.make(), engine.ErrOver)
	require.NoDirExists(t, d.sessionDir(s.id))
}

// TestAcknowledgementOfAWithdrawnBallot: the ballot is withdrawn while it is acknowledged. That is no success.
func TestAcknowledgementOfAWithdrawnBallot(t *testing.T) {
	var d *driver
	var own string
	d = driverWith(t, configIn(t.TempDir()+"/store"), hooked{ops: kernel{}, beforeRename: func(_, to string) {
		if strings.Contains(to, "/_a/") {
			require.NoError(t, d.dirOf("e").withdraw(d, own))
		}
	}})
	s := &enterer{t: t, s: sessionOf(t, d)}
	e := s.enter()
	_, _, own = splitKey(e.Key)
	_, err := s.s.Acknowledge(soon(t), e, "value")
	require.ErrorIs(t, err, engine.ErrGone)
}

// TestAheadInASessionThatIsOver: the error says so, and not that the ballot was removed.
func TestAheadInASessionThatIsOver(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	s := &enterer{t: t, s: sessionOf(t, d)}
	e := s.enter()
	require.NoError(t, s.s.(*session).remove())
	_, err := d.Ahead(soon(t), e)
	require.ErrorIs(t, err, engine.ErrOver)
}
