package engine

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// bound is a session that ends with its process.
type bound struct {
	Session
	err error
}

func (b bound) SessionFile() (*os.File, error) { return nil, b.err }

// TestSessionFile is that of the ballot's session. The ballot is lost if the session has ended.
func TestSessionFile(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		file, err := b.SessionFile()
		require.NoError(t, err)
		require.Nil(t, file, "the driver has none")
		for _, err := range []error{nil, errDisk, ErrOver} {
			b.session.driver = bound{b.session.driver, err}
			_, got := b.SessionFile()
			require.ErrorIs(t, got, err)
			require.Equal(t, err == ErrOver, errors.Is(got, store.ErrLost))
		}
	})
}

// line is a lifeline that keeps what it is told.
type line struct {
	mu   sync.Mutex
	told []string // guarded by mu
}

func (l *line) tell(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, what)
}

func (l *line) heard() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.told, ", ")
}

func (l *line) Add(id string, handover []byte) { l.tell("add " + id + " " + string(handover)) }
func (l *line) Drop(id string)                 { l.tell("drop " + id) }
func (l *line) File() (*os.File, error)        { return os.Open(os.DevNull) }
func (l *line) Close()                         { l.tell("close") }

// A lifeline knows each session that the service might keep: from before a ballot is cast in it until its end was
// tried. One whose leader's work winds down is known beside the next.
func TestLifelineKnowsAllSessions(t *testing.T) {
	for name, answered := range map[string]error{"the end is confirmed": nil, "the end fails": store.ErrUnavailable} {
		t.Run(name, func(t *testing.T) {
			l := &line{}
			play(t, Settings{Lifeline: l}, func(t *testing.T, s *scene) {
				s.casting(t.Context(), "a")
				s.next("Open").answer(answer{})
				s.next("Enter").fail(store.ErrDenied)
				require.Equal(t, "add session 1 of 1", l.heard(), "before a ballot is cast")
				b, _ := s.leading(1)
				s.session.ends(errDisk)
				s.casting(t.Context(), "a")
				s.next("Open").answer(answer{})
				next := s.next("Enter")
				require.Equal(t, "add session 1 of 1, add session 2 of 2", l.heard(), "two, since the leader's work goes on")
				withdrawn := s.withdraw(t.Context(), b)
				s.find("End").answer(answer{err: answered})
				require.True(t, withdrawn.returned())
				require.Equal(t, "add session 1 of 1, add session 2 of 2, drop session 1", l.heard(), "even if the end is not confirmed")
				next.answer(entered(2, Place{}))
			})
			require.Equal(t, "close", l.told[len(l.told)-1])
		})
	}
}

// A session that the service has ended is dropped.
func TestLifelineForgetsASessionThatHasEnded(t *testing.T) {
	l := &line{}
	play(t, Settings{Lifeline: l}, func(t *testing.T, s *scene) {
		s.cast(1, Place{})
		s.session.ends(nil)
		require.Equal(t, "add session 1 of 1, drop session 1", l.heard())
	})
}

// With a lifeline a session ends with its process, unless the file is kept.
func TestLifelineGivesTheSessionFile(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		file, err := b.SessionFile()
		require.NoError(t, err)
		require.Nil(t, file)
	})
	play(t, Settings{Lifeline: &line{}}, func(t *testing.T, s *scene) {
		b, _ := s.leading(1)
		file, err := b.SessionFile()
		require.NoError(t, err)
		require.NoError(t, file.Close())
		s.session.ends(errors.New("it is over"))
		_, err = b.SessionFile()
		require.ErrorIs(t, err, store.ErrLost)
		time.Sleep(ttl)
	})
}
