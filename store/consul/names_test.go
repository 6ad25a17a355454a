package consul_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// Consul 1.21.5 refuses most names of keys at /v1/kv, and 1.22.0 some; in transactions no version refuses any. All works under
// such names all the same, in the layout of every version of this library, and nothing is asked in vain again
// and again.
func TestNamesThatAgentsRefuse(t *testing.T) {
	t.Parallel()
	plain := regexp.MustCompile(`^[a-zA-Z0-9,_./\-?&=]+$`)
	for version, refuses := range map[string]func(key string) bool{
		"1.21.5": func(key string) bool { return !plain.MatchString(key) || strings.Contains(key, "..") },
		"1.22.0": func(key string) bool {
			decoded, err := url.PathUnescape(key)
			return strings.Trim(key, " ") != key || err == nil && decoded != key && strings.ContainsAny(decoded, ". ")
		},
	} {
		for _, name := range []string{"Zwei Wörter", "a..b/日本", "50%20 "} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				tp := newTap(t)
				tp.always(func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte) {
					if key := strings.TrimPrefix(r.URL.Path, "/v1/kv/"); refuses(key) {
						answer(500, `invalid key name, keys should respect the "^[a-zA-Z0-9,_./\\-?&=]+$" format`)(tp, w, r, body)
						return
					}
					tp.forward(w, r, body)
				}, "/v1/kv/")
				open := func() *consul.Store { return open(t, consul.Config{Addresses: tp.addr()}) }
				election := newElection() + name
				st, other := open(), open()
				own := castFirst(t, st, election, "own")
				acknowledge(t, own, "own")
				next := cast(t, other, election, "next")
				waiting(t, next)
				known, err := storetest.Leader(soon(t), other, election, nil)
				require.NoError(t, err)
				require.Equal(t, "own", known.Value)
				require.Equal(t, []string{"own", "next"}, values(t, st, election))
				names, err := st.Elections(soon(t))
				require.NoError(t, err)
				require.Contains(t, names, election)
				require.Len(t, ballotKeys(t, operator(t, sharedServer(t)), election), 2, "the layout")

				require.NoError(t, other.RequestResignation(soon(t), election, own.Token()))
				receive(t, own.ResignationRequested(), "the request")
				require.NoError(t, own.Withdraw(soon(t)))
				require.NoError(t, next.Wait(soon(t)))
				acknowledge(t, next, "next")
				known, err = storetest.Leader(soon(t), st, election, &known)
				require.NoError(t, err)
				require.Equal(t, "next", known.Value)
				require.NoError(t, st.Clear(soon(t), election))
				lost(t, next)
				require.ErrorIs(t, next.Err(), store.ErrLost)
				require.Less(t, tp.Count("index="), 60)
			})
		}
	}
}
