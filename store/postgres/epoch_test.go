package postgres

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// An entry is made, and its watch is not set when the server fails over. Everything that is watched is read, and
// nothing tells the end of the entry if it is lost. So the session is given up, and no renewal counts. An entry that
// stands, is watched, or is not wanted any more, ends no session.
func TestEntryIsLostBeforeItsWatch(t *testing.T) {
	entry := engine.Entry{Election: "x", Token: 1}
	nonce := engine.Nonce{Name: "n"}
	for name, c := range map[string]struct {
		before func(t *testing.T, d *driver, s engine.Session)
		stands bool
		over   bool
	}{
		"lost":   {before: func(*testing.T, *driver, engine.Session) {}, over: true},
		"stands": {before: func(*testing.T, *driver, engine.Session) {}, stands: true},
		"watched": {before: func(t *testing.T, d *driver, _ engine.Session) {
			_, err := d.WatchEntry(t.Context(), "1", new(news).tell)
			require.NoError(t, err)
		}},
		"removed": {before: func(t *testing.T, _ *driver, s engine.Session) {
			require.NoError(t, s.Remove(t.Context(), engine.Removal{Entry: entry}))
		}},
		"void": {before: func(t *testing.T, _ *driver, s engine.Session) { require.NoError(t, s.Void(t.Context(), "x", nonce)) }},
		"found to be gone": {before: func(t *testing.T, d *driver, _ engine.Session) {
			_, err := d.Ahead(t.Context(), entry)
			require.ErrorIs(t, err, engine.ErrGone)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
				f.answer["look"], f.answer["ahead"] = one(), one(false, nil, false)
				s, _, err := d.Open(t.Context())
				require.NoError(t, err)
				_, err = s.Enter(t.Context(), "x", nonce, "own")
				require.NoError(t, err)
				c.before(t, d, s)
				f.set(func() {
					f.epoch = 1
					if c.stands {
						f.answer["look"] = one(int64(1), "x", s.ID(), "n", false, nil, nil, int64(7), int64(1000))
					}
				})
				f.drop()
				time.Sleep(time.Second)
				synctest.Wait()
				renewals := 0
				err = s.(*session).renew(t.Context(), func(engine.Proof) { renewals++ })
				if c.over {
					require.ErrorIs(t, err, engine.ErrOver)
					require.Len(t, f.called("close"), 1)
					require.Zero(t, renewals)
					return
				}
				require.NoError(t, err)
				require.Empty(t, f.called("close"))
				require.Equal(t, 1, renewals)
			})
		})
	}
}

// While it is not known whether the entry stands, no renewal counts.
func TestEntryIsNotKnownToStand(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s := failsOverUnwatched(t, f, d)
		f.set(func() { f.fails["look"] = "57014" })
		for range 2 {
			require.ErrorIs(t, s.renew(t.Context(), func(engine.Proof) { t.Error("a renewal counts") }), store.ErrUnavailable)
		}
	})
}

// While a renewal after a failover looks for entries, one is given back, or another one is made. Neither ends the session.
func TestEntriesChangeInAFailover(t *testing.T) {
	for name, change := range map[string]struct {
		stands bool
		call   func(t *testing.T, f *fakeServer, s engine.Session)
	}{
		"given back": {false, func(t *testing.T, _ *fakeServer, s engine.Session) {
			require.NoError(t, s.Remove(t.Context(), engine.Removal{Entry: engine.Entry{Election: "x", Token: 1}}))
		}},
		"made": {true, func(t *testing.T, f *fakeServer, s engine.Session) {
			f.set(func() { f.answer["enter"] = one("stands", int64(2), nil, nil, nil, nil, nil) })
			_, err := s.Enter(t.Context(), "x", engine.Nonce{Name: "m"}, "own")
			require.NoError(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
				s := failsOverUnwatched(t, f, d)
				f.set(func() {
					f.hangs["look"], f.answer["look"] = true, one()
					if change.stands {
						f.answer["look"] = one(int64(1), "x", s.ID(), "n", false, nil, nil, int64(7), int64(1000))
					}
				})
				renewed, counts := make(chan error, 1), 0
				go func() { renewed <- s.renew(t.Context(), func(engine.Proof) { counts++ }) }()
				synctest.Wait()
				require.NotEmpty(t, f.called("look"))
				change.call(t, f, s)
				f.release()
				require.NoError(t, <-renewed)
				require.Equal(t, 1, counts)
				require.Empty(t, f.called("close"))
			})
		})
	}
}

// failsOverUnwatched makes an entry, and lets the server fail over before its watch is set.
func failsOverUnwatched(t *testing.T, f *fakeServer, d *driver) *session {
	s, _, err := d.Open(t.Context())
	require.NoError(t, err)
	_, err = s.Enter(t.Context(), "x", engine.Nonce{Name: "n"}, "own")
	require.NoError(t, err)
	f.set(func() { f.epoch = 1 })
	f.drop()
	time.Sleep(time.Second)
	synctest.Wait()
	require.True(t, d.allRead())
	return s.(*session)
}

// The entries of a session are forgotten with it, also one whose request is answered after its end.
func TestEntriesOfASessionAreForgotten(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		_, err = s.Enter(t.Context(), "x", engine.Nonce{Name: "n"}, "own")
		require.NoError(t, err)
		require.Len(t, d.unwatched, 1)
		f.answer["renew"] = one()
		require.NoError(t, s.Keep(t.Context(), func(engine.Proof) {}))
		require.Empty(t, d.unwatched)
		_, err = s.Enter(t.Context(), "x", engine.Nonce{Name: "n"}, "own")
		require.NoError(t, err)
		require.Empty(t, d.unwatched)
	})
}

// An answer that comes after another connection has told of a failover does not count: it is of an old primary.
func TestAnswerOfAnOldPrimary(t *testing.T) {
	for function, call := range map[string]func(context.Context, engine.Session) error{
		"enter": func(ctx context.Context, s engine.Session) error {
			_, err := s.Enter(ctx, "x", engine.Nonce{Name: "n"}, "own")
			return err
		},
		"acknowledge": func(ctx context.Context, s engine.Session) error {
			_, err := s.Acknowledge(ctx, engine.Entry{Token: 1}, "own")
			return err
		},
		"renew": func(ctx context.Context, s engine.Session) error {
			return s.(*session).renew(ctx, func(engine.Proof) { t.Error("a renewal counts") })
		},
	} {
		inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
			s, _, err := d.Open(t.Context())
			require.NoError(t, err)
			f.set(func() { f.hangs[function] = true })
			answered := make(chan error)
			go func() { answered <- call(t.Context(), s) }()
			synctest.Wait()
			require.True(t, d.inEpoch(1))
			f.release()
			require.ErrorIs(t, <-answered, store.ErrUnknownOutcome, function)
			require.Empty(t, d.unwatched)
		})
	}
}

// An entry is made while another connection tells of a failover, after its answer has come.
func TestEntryIsMadeInAFailover(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		epoch := d.latest()
		require.True(t, d.inEpoch(1))
		require.ErrorIs(t, d.enter(5, entered{s.(*session), "n"}, epoch), store.ErrUnknownOutcome)
		require.NoError(t, d.enter(5, entered{s.(*session), "n"}, d.latest()))
		require.Len(t, d.unwatched, 1)
	})
}

// Until the entries have been read again, no renewal prolongs the lease of a ballot that
// might have been lost.
func TestRenewalsAfterAFailover(t *testing.T) {
	d, err := newDriver(Config{Addresses: []string{"127.0.0.1:1"}, User: "x", Database: "x"})
	require.NoError(t, err)
	defer d.Close()
	require.True(t, d.inEpoch(3))
	require.True(t, d.allRead(), "nothing has been told before")
	require.False(t, d.over, "the first epoch is no failover")
	require.True(t, d.inEpoch(4))
	require.False(t, d.allRead(), "a renewal counts before the entries have been read again")
	entry, leader := &watch{token: 7}, &watch{election: "x"}
	d.watches.add(entry)
	d.watches.add(leader)
	d.watches.fresh = []*watch{entry, leader}
	over := d.next()
	require.Equal(t, []*watch{leader}, over.list, "the watches of leaders end, and others don't")
	require.Equal(t, []*watch{entry}, d.watches.fresh, "the end of a watch is its answer")
	again := d.next()
	require.True(t, again.all)
	require.Equal(t, []*watch{entry}, again.list)
	require.Equal(t, []*watch{entry}, again.fresh, "a watch that has ended is not answered again: there is room for one answer")
}

// A log handler that hangs holds up nothing but Close.
func TestLogHandlerThatHangs(t *testing.T) {
	var hangs chan struct{}
	handler := handlerFunc(func() { <-hangs })
	inBubble(t, Config{TTL: 24 * time.Second, Logger: slog.New(handler)}, func(t *testing.T, f *fakeServer, d *driver) {
		hangs = make(chan struct{})
		defer close(hangs)
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		f.set(func() { f.epoch = 1 })
		f.drop()
		time.Sleep(time.Second)
		synctest.Wait()
		took, err := request(t.Context(), d)
		require.NoError(t, err)
		require.Zero(t, took)
		require.True(t, d.allRead())
	})
}

// handlerFunc is a log handler that calls a function for each line.
type handlerFunc func()

func (h handlerFunc) Handle(context.Context, slog.Record) error { h(); return nil }
func (h handlerFunc) Enabled(context.Context, slog.Level) bool  { return true }
func (h handlerFunc) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h handlerFunc) WithGroup(string) slog.Handler             { return h }
