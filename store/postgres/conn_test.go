package postgres

import (
	"context"
	"net"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// The rule of requests that are not answered: the connection is given up after the TTL, or half a minute, and nothing
// is cancelled: a commit that waits for a standby would end by that, without being on the standby.
func TestRequestIsNotCancelled(t *testing.T) {
	for ttl, limit := range map[time.Duration]time.Duration{24 * time.Second: 24 * time.Second, 10 * time.Minute: 30 * time.Second} {
		inBubble(t, Config{TTL: ttl}, func(t *testing.T, f *fakeServer, d *driver) {
			_, err := request(t.Context(), d)
			require.NoError(t, err)
			f.set(func() { f.hangs["clear"] = true })
			took, err := request(t.Context(), d)
			require.ErrorIs(t, err, store.ErrUnknownOutcome)
			require.Equal(t, limit, took)
			time.Sleep(20 * time.Second) // a request to cancel would have this long
			synctest.Wait()
			require.Zero(t, f.cancels)
			require.Len(t, f.dials(), 2)
		})
	}
}

// The rule of a caller that gives up: its request goes on, and keeps its connection.
func TestCallerGivesUp(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		f.set(func() { f.hangs["clear"] = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		took, err := request(ctx, d)
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
		require.Equal(t, time.Second, took)
		require.Equal(t, 2, f.open())
		f.release()
		synctest.Wait()
		_, err = request(t.Context(), d)
		require.NoError(t, err)
		require.Len(t, f.dials(), 2)
	})
}

// The server that answered last is tried first: one that does not answer costs its timeout once.
func TestServerThatAnsweredIsFirst(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second, Addresses: []string{"a:1", "b:1", "c:1"}}, func(t *testing.T, f *fakeServer, d *driver) {
		f.gone["a:1"] = true
		took, err := request(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, 4*time.Second, took, "the servers share half the limit")
		require.Equal(t, []string{"a:1", "b:1", "b:1"}, f.dials())
		f.set(func() { f.away["b:1"], f.gone["a:1"] = true, false })
		f.drop()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"b:1", "a:1"}, f.dials()[3:5], "then the others in their order")
	})
}

// Each address of a name is a server of its own: the first is dead, the second a standby.
func TestPrimaryIsOneAddressOfAName(t *testing.T) {
	var server *fakeServer
	addresses := []netip.Addr{netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	names := adapter.NewDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		return server.dial(ctx, network, address)
	}, func(context.Context, string) ([]netip.Addr, error) { return addresses, nil })
	inBubble(t, Config{TTL: 24 * time.Second, Addresses: []string{"db"}, dialer: names}, func(t *testing.T, f *fakeServer, d *driver) {
		server = f
		f.gone["10.0.0.3:5432"], f.standbys["10.0.0.1:5432"] = true, true
		took, err := request(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, 4*time.Second, took)
		primary := "10.0.0.2:5432"
		require.Equal(t, []string{"10.0.0.3:5432", "10.0.0.1:5432", primary, primary}, f.dials())
		f.set(func() { f.standbys[primary], f.standbys["10.0.0.1:5432"] = true, false })
		f.drop()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{primary, "10.0.0.3:5432", "10.0.0.1:5432"}, f.dials()[4:7])
	})
}

// A server that takes connections and says nothing is given up after twice the limit, and after 4 s at the soonest. If
// there is another server, that one is tried after a sixth of the limit.
func TestServerSaysNothing(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second, Addresses: []string{"a:1", "b:1"}}, func(t *testing.T, f *fakeServer, d *driver) {
		f.stuck["a:1"] = true
		took, err := request(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, 4*time.Second, took)
		f.drop()
		time.Sleep(time.Second)
		synctest.Wait()
		took, err = request(t.Context(), d)
		require.NoError(t, err)
		require.Zero(t, took)
		require.Equal(t, []string{"a:1", "b:1", "b:1", "b:1", "b:1"}, f.dials())
	})
	for ttl, limit := range map[time.Duration]time.Duration{24 * time.Second: 48 * time.Second, time.Second: 4 * time.Second} {
		inBubble(t, Config{TTL: ttl}, func(t *testing.T, f *fakeServer, d *driver) {
			f.stuck["a:1"] = true
			took, err := request(t.Context(), d)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.Equal(t, limit, took)
		})
	}
}

// The store is closed while a connection is being made.
func TestCloseWhileItConnects(t *testing.T) {
	for range 20 {
		inBubble(t, Config{TTL: 24 * time.Second, Addresses: []string{"a:1", "b:1"}}, func(t *testing.T, f *fakeServer, d *driver) {
			f.stuck["a:1"], f.stuck["b:1"] = true, true
			d.begin()
			time.Sleep(20 * time.Second)
		})
	}
}

// A warning, such as that a commit might not be on the standby, makes the outcome unknown, and only that of its
// request.
func TestWarning(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		renewals := 0
		renew := func() error { return s.(*session).renew(t.Context(), func(engine.Proof) { renewals++ }) }
		f.set(func() { f.notices["renew"] = "WARNING" })
		require.ErrorIs(t, renew(), store.ErrUnknownOutcome)
		require.Zero(t, renewals)
		for _, severity := range []string{"", "INFO"} {
			f.set(func() { f.notices["renew"] = severity })
			require.NoError(t, renew())
		}
	})
}

// Another process creates the schema: the connections that are there find it.
func TestSchemaAppears(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.fails["hello"] = "3F000"
		f.answer["standing"] = one(int64(1), "s", "n", []byte("own"), false, int64(7), int64(3000), int64(0))
		for range 2 {
			ballots, err := d.Ballots(t.Context(), "x")
			require.NoError(t, err)
			require.Empty(t, ballots)
		}
		f.set(func() { delete(f.fails, "hello") })
		ballots, err := d.Ballots(t.Context(), "x")
		require.NoError(t, err)
		require.Len(t, ballots, 1)
		require.Len(t, f.dials(), 2)
	})
}

// The schema was dropped: the session has ended with it, and there are no ballots.
func TestSchemaWasDropped(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		f.set(func() {
			for _, function := range []string{"renew", "enter", "queue", "ahead"} {
				f.fails[function] = "42883"
			}
		})
		require.ErrorIs(t, s.(*session).renew(t.Context(), nil), engine.ErrOver)
		_, err = s.Enter(t.Context(), "x", engine.Nonce{Name: "n"}, "own")
		require.ErrorIs(t, err, engine.ErrOver)
		f.set(func() { f.fails["look"] = "42P01" })
		var told news
		_, err = d.WatchLeader(t.Context(), "x", told.tell)
		require.NoError(t, err)
		require.Equal(t, engine.State{}, *told[0].State)
		ballots, err := d.Ballots(t.Context(), "x")
		require.NoError(t, err)
		require.Empty(t, ballots)
		_, err = d.Ahead(t.Context(), engine.Entry{Election: "x", Token: 1})
		require.ErrorIs(t, err, engine.ErrGone)
	})
}

// The variables of PostgreSQL's own tools change nothing, even those that the client library can't read.
func TestEnvironmentIsIgnored(t *testing.T) {
	for name, value := range map[string]string{
		"PGSERVICE": "none", "PGSERVICEFILE": "/none", "PGCONNECT_TIMEOUT": "soon", "PGREQUIREAUTH": "none such", "PGSSLROOTCERT": "/none",
		"PGSSLCERT": "/none", "PGSSLKEY": "/none", "PGPORT": "none", "PGPASSFILE": "/none", "PGOPTIONS": "-c none=x",
	} {
		t.Setenv(name, value)
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	list, err := Config{Addresses: []string{"a:1"}, User: "x", Database: "app", TTL: time.Second}.connConfigs()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"application_name": "leadership"}, list[0].RuntimeParams)
	require.Equal(t, []any{"a", uint16(1), "app", "x", ""}, []any{list[0].Host, list[0].Port, list[0].Database, list[0].User, list[0].Password})
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// An epoch that is lower than one that was told is that of an old primary.
func TestOldPrimaryIsRefused(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.epoch = 2
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		f.set(func() { f.epoch = 1 })
		f.drop()
		synctest.Wait()
		_, err = request(t.Context(), d)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorContains(t, err, "old primary")
	})
}

// A server that can't be used is refused by a name of its field, and a standby is not: it might become the primary.
func TestServerIsRefused(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		refused := func(change func(), is func(error)) {
			f.set(func() { f.encoding, f.standby, f.layout = "", "", "" })
			f.set(change)
			f.drop()
			synctest.Wait()
			_, err := request(t.Context(), d)
			is(err)
		}
		field := func(name string) func(error) {
			return func(err error) {
				var refused *store.FieldError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, name, refused.Field)
				require.False(t, adapter.Uncertain(err))
			}
		}
		refused(func() {}, func(err error) { require.NoError(t, err) })
		refused(func() { f.encoding = "LATIN1" }, field("database"))
		refused(func() { f.layout = "2" }, field("schema"))
		refused(func() { f.standby = "t" }, func(err error) {
			require.EqualError(t, err, "service unavailable: the server is a standby: a:1") // the log has the first words
			require.ErrorIs(t, err, errStandby)
			require.ErrorIs(t, err, store.ErrUnavailable)
		})
	})
}

// An old primary is passed over for the next server of the list.
func TestOldPrimaryIsLeft(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second, Addresses: []string{"a:1", "b:1"}}, func(t *testing.T, f *fakeServer, d *driver) {
		f.epoch = 2
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		f.set(func() { f.epochs = map[string]int{"a:1": 1} })
		f.drop()
		time.Sleep(time.Second)
		synctest.Wait()
		_, err = request(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, []string{"a:1", "b:1"}, f.dials()[2:4])
	})
}
