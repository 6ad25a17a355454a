package consul

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// A session whose creation took longer than its lease lasts is destroyed, and another one opened: there might not be
// enough time to confirm it.
func TestSessionThatComesLate(t *testing.T) {
	var created, destroyed atomic.Int64
	virtual(t, leastTTL, func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/create") && created.Add(1) == 1:
			time.Sleep(leastTTL * 3 / 4) // the time of an election among the servers: more than the lease of two thirds
		case strings.HasSuffix(path, "/destroy/id"):
			destroyed.Add(1)
		}
		_, _ = w.Write([]byte(answerTo(r)))
	}, func(t *testing.T, d *driver) {
		_, _, err := d.Open(t.Context())
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorContains(t, err, "longer than its lease")
		require.Zero(t, destroyed.Load())
		_, _, err = d.Open(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, created.Load())
		require.EqualValues(t, 1, destroyed.Load())
	})
}

// The TTLs that the agent and the servers are given: the check's is that of the configuration, and the session's is the
// least that Consul takes, or that of the configuration.
func TestTTLsOfASession(t *testing.T) {
	for _, ttl := range []time.Duration{leastTTL, leastSessionTTL - time.Second, leastSessionTTL, mostTTL} {
		var check, session string
		virtual(t, ttl, func(w http.ResponseWriter, r *http.Request) {
			var body struct {
				TTL   string
				Check struct{ TTL string }
			}
			switch path := r.URL.Path; {
			case strings.HasSuffix(path, "/service/register"):
				_ = json.NewDecoder(r.Body).Decode(&body)
				check = body.Check.TTL
			case strings.HasSuffix(path, "/session/create"):
				_ = json.NewDecoder(r.Body).Decode(&body)
				session = body.TTL
			}
			_, _ = w.Write([]byte(answerTo(r)))
		}, func(t *testing.T, d *driver) {
			_, _, err := d.Open(t.Context())
			require.NoError(t, err)
			require.Equal(t, max(ttl, leastSessionTTL).String(), session)
			if ttl < leastSessionTTL {
				require.Equal(t, ttl.String(), check)
			} else {
				require.Empty(t, check, "a session of its own TTL needs no check")
			}
		})
	}
}

// A denial by the agent itself, which registers the check, might be one that it remembers. It is told at once as a denial,
// and is not final.
func TestAgentDeniesByItself(t *testing.T) {
	virtual(t, leastTTL, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/service/register") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("Permission denied: token lacks permission 'service:write' on \"leadership\""))
		}
		_, _ = w.Write([]byte(answerTo(r)))
	}, func(t *testing.T, d *driver) {
		_, _, err := d.Open(t.Context())
		require.ErrorIs(t, err, store.ErrDenied)
		require.ErrorIs(t, err, store.ErrUnavailable)
	})
}

// Servers that know their leader refuse all writes for some time. No attempt to destroy a session counts until a session
// is kept: the session that was left is destroyed all the same.
func TestSessionIsDestroyedAfterManyAttempts(t *testing.T) {
	var refusals, destroyed atomic.Int64
	virtual(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Consul-Index", "1")
		switch path := r.URL.Path; {
		case r.Method == http.MethodPut && refusals.Add(1) <= 5*mostTries:
			w.WriteHeader(http.StatusInternalServerError)
			return
		case strings.HasSuffix(path, "/destroy/left"):
			destroyed.Add(1)
			_, _ = w.Write([]byte("true"))
			return
		}
		_, _ = w.Write([]byte(answerTo(r)))
	}, func(t *testing.T, d *driver) {
		d.drop(&session{driver: d, id: "left"}, true)
		var err error
		for range 5 * mostTries {
			if _, _, err = d.Open(t.Context()); err == nil {
				break
			}
		}
		require.NoError(t, err)
		d.clearLeft(true)
		require.EqualValues(t, 1, destroyed.Load())
	})
}

// A server that has just begun to lead does not know a session yet, and answers that it has destroyed it.
func TestSessionThatTheServerDoesNotKnowYet(t *testing.T) {
	var applied, stands atomic.Bool
	stands.Store(true)
	virtual(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Consul-Index", "1")
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/destroy/left"):
			stands.Store(stands.Load() && !applied.Load())
			_, _ = w.Write([]byte("true"))
		case strings.HasSuffix(path, "/info/left"):
			require.True(t, r.URL.Query().Has("consistent"))
			applied.Store(true) // it has waited for that
			_, _ = w.Write([]byte(map[bool]string{true: `[{"ID":"left"}]`, false: "[]"}[stands.Load()]))
		default:
			_, _ = w.Write([]byte(answerTo(r)))
		}
	}, func(t *testing.T, d *driver) {
		d.drop(&session{driver: d, id: "left"}, true)
		_, _, err := d.Open(t.Context())
		require.NoError(t, err)
		require.False(t, stands.Load())
	})
}

// What was offered before a ballot was declared void is not told after that: a watch reads.
func TestVoidTakesBackWhatWasOffered(t *testing.T) {
	var reads atomic.Int64
	virtual(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "_ballots") {
			reads.Add(1)
		}
		w.WriteHeader(http.StatusInternalServerError)
	}, func(t *testing.T, d *driver) {
		s, key := &session{driver: d, id: "id"}, "leadership/x/_ballots/id-n"
		d.watches.Offer("leadership/x/_ballots/", map[string]agent.Read{key: {Entry: agent.Entry{Exists: true, Create: 2, Modify: 2}, Index: 2}})
		require.Error(t, s.Void(t.Context(), "x", engine.Nonce{Name: "n"}))
		_, err := d.WatchEntry(t.Context(), key, func(engine.News) {})
		require.Error(t, err)
		require.EqualValues(t, 1, reads.Load())
	})
}

// A session that can't be destroyed delays no other, and is given up: an error for each request of one kind is no outage.
func TestSessionThatIsNotDestroyed(t *testing.T) {
	var tries, destroyed atomic.Int64
	virtual(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Consul-Index", "1")
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/destroy/stuck"):
			tries.Add(1)
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasSuffix(path, "/destroy/next"):
			destroyed.Add(1)
			_, _ = w.Write([]byte("true"))
		default:
			_, _ = w.Write([]byte(answerTo(r)))
		}
	}, func(t *testing.T, d *driver) {
		for _, id := range []string{"stuck", "next"} {
			d.drop(&session{driver: d, id: id}, true)
		}
		_, _, err := d.Open(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, destroyed.Load())
		require.EqualValues(t, 1, tries.Load())
		for range 2 * mostTries {
			d.clearLeft(true)
		}
		require.EqualValues(t, 1, destroyed.Load())
		require.EqualValues(t, mostTries+1, tries.Load(), "the try of Open does not count")
	})
}

// A removal takes along the acknowledgement of its ballot, as it was read, and no other one of the session.
func TestAcknowledgementOfAnotherBallotStays(t *testing.T) {
	s := &session{driver: &driver{layout: layout{"p"}}, id: "s"}
	gone := engine.Removal{Entry: engine.Entry{Election: "x", Key: "p/x/_ballots/b", Token: 7, Private: &standing{}}, Acknowledged: true}
	for name, c := range map[string]struct {
		ack   agent.Entry
		guard api.KVOp
		goes  bool
	}{
		"none":                {agent.Entry{}, api.KVCheckNotExists, false},
		"its own":             {agent.Entry{Exists: true, Session: "s", Flags: ackFlags(7), Modify: 9}, api.KVCheckIndex, true},
		"written over":        {agent.Entry{Exists: true, Session: "s", Modify: 9}, api.KVCheckIndex, true},
		"of another ballot":   {agent.Entry{Exists: true, Session: "s", Flags: ackFlags(8), Modify: 9}, api.KVCheckIndex, false},
		"of another session":  {agent.Entry{Exists: true, Session: "t", Flags: ackFlags(7), Modify: 9}, api.KVCheckIndex, false},
		"a value without one": {agent.Entry{Exists: true, Modify: 9}, api.KVCheckIndex, false},
	} {
		ops := s.removal(gone, c.ack)
		require.Equal(t, &api.KVTxnOp{Verb: c.guard, Key: "p/x", Index: c.ack.Modify}, ops[0], name)
		require.Equal(t, c.goes, len(ops) == 3 && ops[1].Verb == api.KVDelete && ops[1].Key == "p/x", name)
		require.Equal(t, gone.Key, ops[len(ops)-1].Key, name)
	}
	gone.Acknowledged = false
	require.Len(t, s.removal(gone, agent.Entry{}), 1)
}
