package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// news collects what a watch is told.
type news []engine.News

func (n *news) tell(one engine.News) { *n = append(*n, one) }

// leads is a row of look: an election's leader, whose session has this mark and TTL.
func leads(revision, mark int64, ttl time.Duration) func([]string) []any {
	return one(int64(1), "x", "holder", "n", false, []byte("own"), revision, mark, ttl.Milliseconds())
}

const probe = "-- is the connection there?"

// The rules of the link: the connection that listens is probed each quarter of the TTL. If there is no answer, it
// counts as lost, and on the next one everything is read again.
func TestLinkIsProbed(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		var told news
		f.answer["look"] = leads(3, 7, time.Hour)
		_, err := d.WatchLeader(t.Context(), "x", told.tell)
		require.NoError(t, err)
		time.Sleep(19 * time.Second)
		synctest.Wait()
		require.Equal(t, []time.Duration{6 * time.Second, 12 * time.Second, 18 * time.Second}, f.called(probe))
		require.Len(t, f.called("look"), 1)
		require.Len(t, told, 1)

		f.set(func() {
			f.hangs[probe] = true
			f.answer["look"] = leads(4, 7, time.Hour)
		})
		time.Sleep(5*time.Second + 4*time.Second - time.Millisecond) // the answer has a sixth of the TTL
		synctest.Wait()
		require.Zero(t, d.losses.Load())
		require.Len(t, f.called("LISTEN leadership"), 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, f.called("LISTEN leadership"), 2)
		require.EqualValues(t, 1, d.losses.Load(), "all proofs of the connection are void")
		require.Len(t, f.called("look"), 2, "a notification might have been lost")
		require.Len(t, told, 2)
		require.EqualValues(t, 4, told[1].State.Leader.Revision)
	})
}

// What there is to do since the link has looked for it last is done at once, without a probe.
func TestWakeBeforeRest(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		conn, err := d.connect()
		require.NoError(t, err)
		defer shut(conn)
		d.mu.Lock()
		d.link.wake()
		d.mu.Unlock()
		began := time.Now()
		require.NoError(t, d.rest(conn))
		require.Zero(t, time.Since(began))
		require.NoError(t, d.rest(conn))
		require.Equal(t, 6*time.Second, time.Since(began), "once")
		require.Len(t, f.called(probe), 1)
	})
}

// The rule of notifications: they are hints. Those of what is not watched cost no request, whatever they say.
func TestHints(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		var told news
		f.answer["look"] = one(int64(5), "x", "holder", "n", false, nil, nil, int64(7), int64(60_000))
		entry, err := d.WatchEntry(t.Context(), "5", told.tell)
		require.NoError(t, err)
		looks := len(f.called("look"))
		for _, hint := range []string{"", " ", "-", "=", "-5", "=5 y", "-6 x", "=6 x", "of another program", "- x", "=x x"} {
			f.notify(hint)
			synctest.Wait()
			require.Len(t, f.called("look"), looks, "%q", hint)
		}
		for _, hint := range []string{"-5 x", "=5 x"} {
			f.notify(hint)
			synctest.Wait()
			looks++
			require.Len(t, f.called("look"), looks, hint)
		}
		require.Len(t, told, 1, "it has not changed")
		leader, err := d.WatchLeader(t.Context(), "x", told.tell)
		require.NoError(t, err)
		looks = len(f.called("look"))
		for hint, more := range map[string]int{"=6 x": 1, "-6 x": 0} {
			f.notify(hint)
			synctest.Wait()
			looks += more
			require.Len(t, f.called("look"), looks, hint)
		}
		entry.Stop()
		leader.Stop()
		f.notify("=5 x")
		synctest.Wait()
		require.Len(t, f.called("look"), looks, "nothing is watched any more")
	})
}

// The rule of marks: a session whose mark has stood for its TTL is ended, and not sooner. Who watches its leader looks
// then.
func TestStandingMark(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		var told news
		f.answer["look"] = leads(3, 7, 10*time.Second)
		began := time.Since(f.began)
		_, err := d.WatchLeader(t.Context(), "x", told.tell)
		require.NoError(t, err)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		f.set(func() { f.answer["look"] = leads(3, 8, 10*time.Second) }) // it has been renewed
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Len(t, f.called("look"), 2)
		require.Empty(t, f.called("expire"), "its mark has changed")
		f.set(func() {
			f.answer["expire"] = func([]string) []any {
				f.answer["look"] = one()
				return []any{true}
			}
		})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Len(t, f.called("expire"), 1)
		require.Equal(t, began+20*time.Second, f.called("expire")[0])
	})
}

// A follower that may not end sessions is told at once that the leader is gone.
func TestStandingMarkOfAFollower(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		var told news
		f.answer["look"], f.fails["expire"] = leads(3, 7, 10*time.Second), "42501"
		_, err := d.WatchLeader(t.Context(), "x", told.tell)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, &engine.State{}, told[len(told)-1].State)
	})
}

// The rule of many dead sessions: they are looked at each fortieth of the TTL at most, and not one after another.
func TestMarksAreLookedAtTogether(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.hangs["expire"] = true
		f.answer["look"] = func([]string) (rows []any) {
			for i := range 50 { // their marks will have stood for their TTLs one after another
				rows = append(rows, []any{int64(i), "x", fmt.Sprint("dead ", i), "n", false, nil, nil, int64(7), int64(1000 + i*10)})
			}
			return rows
		}
		_, err := d.WatchEntry(t.Context(), "5", new(news).tell)
		require.NoError(t, err)
		looks := len(f.called("look"))
		time.Sleep(2200 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 2, len(f.called("look"))-looks)
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, s := range d.marks {
			require.True(t, s.expiring)
		}
	})
}

// Notifications of other elections do not put off a look at a mark that stands.
func TestStandingMarkOnABusyServer(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.answer["look"] = func(args []string) []any {
			if strings.Contains(args[1], "x") {
				return leads(3, 7, 2*time.Second)(args)
			}
			return nil
		}
		for _, election := range []string{"x", "y"} {
			_, err := d.WatchLeader(t.Context(), election, new(news).tell)
			require.NoError(t, err)
		}
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			f.notify("=6 y")
		}
		synctest.Wait()
		require.NotEmpty(t, f.called("expire"))
	})
}

// The rules of a failover: the watches of leaders end, since the leader that is read next might be an earlier one.
// Those of entries go on. No renewal counts until all that is watched has been read again.
func TestWatchesAtAFailover(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		var leader, entry news
		f.answer["look"] = one()
		_, err := d.WatchEntry(t.Context(), "5", entry.tell)
		require.NoError(t, err)
		_, err = d.WatchLeader(t.Context(), "x", leader.tell)
		require.NoError(t, err)
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		renewals := 0
		renew := func() {
			require.NoError(t, s.(*session).renew(context.Background(), func(engine.Proof) { renewals++ }))
		}
		renew()
		require.Equal(t, 1, renewals)

		f.set(func() { f.epoch, f.hangs["look"] = 1, true })
		f.drop()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, engine.News{Over: true}, leader[len(leader)-1])
		require.Len(t, entry, 1)
		renew()
		require.Equal(t, 1, renewals, "the entries have not been read")
		f.set(func() { f.hangs["look"] = false })
		f.drop()
		time.Sleep(time.Second)
		synctest.Wait()
		renew()
		require.Equal(t, 2, renewals)
		_, err = d.WatchLeader(t.Context(), "x", leader.tell)
		require.NoError(t, err)
		require.NotNil(t, leader[len(leader)-1].State)
	})
}

// Another connection tells of a failover: the connection that listens is to an old primary, and is left.
func TestLinkToAnOldPrimary(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		var told news
		_, err := d.WatchLeader(t.Context(), "x", told.tell)
		require.NoError(t, err)
		f.set(func() { f.epoch = 1 })
		d.lostConnection()
		_, err = request(t.Context(), d)
		require.NoError(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, f.called("LISTEN leadership"), 2)
		require.Equal(t, engine.News{Over: true}, told[len(told)-1])
		require.True(t, d.allRead())
	})
}

// What an old primary answers after another connection has told of the failover does not count.
func TestLookAtAnOldPrimary(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		require.NoError(t, d.Confirm(t.Context()))
		f.set(func() { f.hangs["look"] = true })
		confirmed := make(chan error)
		go func() { confirmed <- d.Confirm(t.Context()) }()
		synctest.Wait()
		require.True(t, d.inEpoch(1))
		f.release()
		require.NoError(t, <-confirmed)
		synctest.Wait()
		require.False(t, d.allRead())
	})
}

// The rules of a link that can't be made: a request gets the error of the next try, and no error of an earlier one.
// Tries are at most six a second, and soon again once the link has worked.
func TestLinkFails(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.away["a:1"] = true
		for range 3 {
			began := time.Now()
			_, err := request(t.Context(), d)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.LessOrEqual(t, time.Since(began), time.Second)
		}
		before := len(f.dials())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.InDelta(t, 25, len(f.dials())-before, 5)
		f.set(func() { f.away["a:1"] = false })
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		synctest.Wait()
		f.drop()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Len(t, f.called("LISTEN leadership"), 2)
	})
}

// No notification comes through: that looks like a pooler. A notification of another program is none of the driver's.
func TestNotificationsDoNotCome(t *testing.T) {
	for ttl, wait := range map[time.Duration]time.Duration{
		time.Second: 5 * time.Second, 8 * time.Second: 8 * time.Second, 24 * time.Second: 10 * time.Second, 10 * time.Minute: 10 * time.Second,
	} {
		inBubble(t, Config{TTL: ttl}, func(t *testing.T, f *fakeServer, d *driver) {
			f.mute = true
			go func() {
				time.Sleep(time.Second / 2)
				f.notify("hello of another program")
			}()
			took, err := request(t.Context(), d)
			require.ErrorIs(t, err, errPooler)
			require.Equal(t, wait, took)
			_, _, err = d.Open(t.Context())
			require.ErrorIs(t, err, errPooler)
			require.Empty(t, f.called("open"))
		})
	}
}

// A link on which nothing can be read is no link: it is not made again and again without a pause.
func TestLookFails(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.fails["look"] = "42501"
		require.Error(t, d.Confirm(t.Context()))
		before := len(f.called("look"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.InDelta(t, 25, len(f.called("look"))-before, 10)
	})
}

// Notifications that come while one is looked at are looked at together: a session with many entries that ends sends
// one for each.
func TestManyNotifications(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.answer["look"] = func([]string) []any { return nil }
		for i := range 100 {
			_, err := d.WatchLeader(t.Context(), fmt.Sprint("x", i), new(news).tell)
			require.NoError(t, err)
		}
		f.set(func() { f.hangs["look"] = true })
		f.notify("=1 x0")
		synctest.Wait()
		looks := len(f.called("look"))
		for i := range 99 {
			f.notify(fmt.Sprint("=2 x", i+1))
		}
		f.release()
		synctest.Wait()
		require.LessOrEqual(t, len(f.called("look"))-looks, 2)
		require.Empty(t, d.watches.notes)
	})
}

// The connection that listens is to an old primary, and others tell of a failover: no pooler is to blame.
func TestNotificationsGoToAnotherServer(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.mute = true
		time.AfterFunc(time.Second, func() { d.inEpoch(1) })
		_, err := request(t.Context(), d)
		require.ErrorIs(t, err, errOldPrimary)
	})
}
