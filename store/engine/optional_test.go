package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestOpenFailsFast: a temporary error that waiting does not end.
func TestOpenFailsFast(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		c := s.casting(t.Context(), "x")
		s.next("Open").fail(fmt.Errorf("open: %w", FailFast(errUnsent)))
		c.fails(t, store.ErrUnavailable)
		s.quiet()
		s.cast(1, Place{}) // the next caller asks again
	})
}

// TestDenialsBear nothing but denials, for as long as the limit.
func TestDenialsBear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d denials
		require.False(t, d.bears(errDisk, time.Second))
		require.True(t, d.bears(store.ErrDenied, time.Second))
		time.Sleep(time.Second - time.Nanosecond)
		require.True(t, d.bears(store.ErrDenied, time.Second))
		require.False(t, d.bears(errDisk, time.Second), "the row is broken")
		require.True(t, d.bears(store.ErrDenied, time.Second))
		time.Sleep(time.Second)
		require.False(t, d.bears(store.ErrDenied, time.Second))
	})
}

// TestDenialThatPassesCostsNoBallot: it has to last as long as the settings say.
func TestDenialThatPassesCostsNoBallot(t *testing.T) {
	play(t, Settings{DenialTimeout: time.Second}, func(t *testing.T, s *scene) {
		b, own := s.leading(1)
		deny := func() {
			time.Sleep(400 * time.Millisecond)
			s.next("Entry").fail(store.ErrDenied)
		}
		own.tells(News{})
		for range 2 {
			deny()
			deny()
			time.Sleep(100 * time.Millisecond)
			again := s.next("Entry")
			again.shows(State{Token: 1, Session: b.session.id})
			require.False(t, b.isLost(), "it passed")
			again.tells(News{}) // and counts from its beginning again
		}
		deny()
		deny()
		deny()
		require.False(t, b.isLost(), "0.8 s since the first one")
		deny()
		require.True(t, b.isLost())
		require.ErrorIs(t, b.Err(), store.ErrDenied)
	})
}

// TestDenialThatPassesCostsNoSession: that of a removal.
func TestDenialThatPassesCostsNoSession(t *testing.T) {
	play(t, Settings{DenialTimeout: time.Second}, func(t *testing.T, s *scene) {
		b, _ := s.leading(1)
		other, _, _ := s.waitingBehind(behind)
		c := s.withdraw(t.Context(), b)
		s.next("Remove").fail(store.ErrDenied)
		time.Sleep(900 * time.Millisecond)
		s.next("Remove").fail(store.ErrDenied)
		synctest.Wait()
		require.False(t, other.isLost())
		require.False(t, c.returned())
		time.Sleep(400 * time.Millisecond)
		s.next("Remove").fail(store.ErrDenied)
		require.True(t, other.isLost())
		c.fails(t, store.ErrDenied)
	})
}

func TestAnsweredErrorIsAnAnswer(t *testing.T) {
	require.NoError(t, Answered(nil))
	busy := fmt.Errorf("%w: overtaken", store.ErrUnavailable)
	require.False(t, isAnswer(busy))
	require.ErrorIs(t, Answered(busy), store.ErrUnavailable, "it is sent again")
	require.EqualError(t, Answered(busy), busy.Error())
	require.True(t, isAnswer(fmt.Errorf("enter: %w", Answered(busy))))
	require.False(t, isAnswer(errLater))
	require.True(t, isAnswer(nil))
	require.True(t, isAnswer(store.ErrDenied))
}

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

// conditioned is a session whose service has transactions.
type conditioned struct{ Session }

func (conditioned) Condition(e Entry) any { return e.Token }

// TestCondition is that of the ballot's entry, from when the ballot is known to be first, also when it is lost: then the
// service refuses.
func TestCondition(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		condition, err := b.Condition()
		require.NoError(t, err)
		require.Nil(t, condition, "the driver has none")
		waiting := s.cast(2, Place{Nearest: b.entry.Key})
		b.session.driver = conditioned{b.session.driver}
		_, err = waiting.Condition()
		require.ErrorIs(t, err, store.ErrNotFirst)
		b.lose(store.ErrLost)
		condition, err = b.Condition()
		require.NoError(t, err)
		require.EqualValues(t, 1, condition)
	})
}

// lister is a driver that lists elections.
type lister struct {
	Driver
	answers []any // names, or an error
}

func (l *lister) Elections(context.Context) ([]string, error) {
	answer := l.answers[0]
	l.answers = l.answers[1:]
	err, _ := answer.(error)
	names, _ := answer.([]string)
	return names, err
}

func (*lister) Confirm(context.Context) error { return nil }
func (*lister) Close() error                  { return nil }

// TestElections are sorted, each once, and names. A request without an answer is sent again. A denial is final.
func TestElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &lister{answers: []any{errUnsent, []string{"b", "a/b", "_void", "b", "a__b", ""}, store.ErrDenied}}
		e := New(d, Settings{Name: "script", TTL: time.Second, Pace: time.Second / 4, VirtualTime: true})
		defer e.Close()
		require.False(t, e.Worked())
		names, err := e.Elections(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"a/b", "b"}, names)
		require.True(t, e.Worked())
		_, err = e.Elections(t.Context())
		require.ErrorIs(t, err, store.ErrDenied)
	})
}

// TestElectionsUnsupported: a driver need not list elections.
func TestElectionsUnsupported(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		_, err := s.Elections(t.Context())
		require.ErrorIs(t, err, errors.ErrUnsupported)
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

func (l *line) heard() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
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
				c := s.casting(t.Context(), "a")
				s.next("Open").answer(answer{})
				enter := s.next("Enter")
				require.Equal(t, []string{"add session 1 of 1"}, l.heard(), "before the ballot is cast")
				enter.answer(entered(1, Place{}))
				require.True(t, c.returned())
				b := c.value.(*ballot)
				s.next("Entry").shows(State{Token: 1, Session: s.scripted.session.ID()})
				require.NoError(t, b.Wait(t.Context()))

				s.session.ends(errDisk)
				s.casting(t.Context(), "a")
				s.next("Open").answer(answer{})
				next := s.next("Enter")
				require.Equal(t, []string{"add session 1 of 1", "add session 2 of 2"}, l.heard(), "two, since the leader's work goes on")
				withdrawn := s.withdraw(t.Context(), b)
				s.find("End").answer(answer{err: answered})
				require.True(t, withdrawn.returned())
				require.Equal(t, []string{"add session 1 of 1", "add session 2 of 2", "drop session 1"}, l.heard(), "whatever is known of the end")
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
		require.Equal(t, []string{"add session 1 of 1", "drop session 1"}, l.heard())
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
