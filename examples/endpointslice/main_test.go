package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/kubernetes"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"

var (
	first  = netip.MustParseAddrPort("10.0.0.1:8080")
	second = netip.MustParseAddrPort("10.0.0.2:8080")
)

// world is a cluster, with the directory of a service account.
type world struct {
	*testing.T
	*cluster
	api *kubernetes.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, api: kubernetes.New(t, "secret")}
	directory := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.api.Certificate().Raw})
	for name, text := range map[string]string{"namespace": "default", "token": "secret\n", "ca.crt": string(ca)} {
		require.NoError(t, os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600))
	}
	u, err := url.Parse(w.api.URL)
	require.NoError(t, err)
	w.cluster, err = inCluster(directory, func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": u.Hostname(), "KUBERNETES_SERVICE_PORT": u.Port()}[name]
	})
	require.NoError(t, err)
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

// shown returns the EndpointSlice.
func (w *world) shown() endpointSlice {
	w.Helper()
	var s endpointSlice
	require.NoError(w, w.request(w.Context(), http.MethodGet, path+"/primary-leader", nil, &s))
	return s
}

// shows checks which leader the EndpointSlice shows.
func (w *world) shows(leader netip.AddrPort, token string) {
	w.Helper()
	s := w.shown()
	require.Equal(w, []string{leader.Addr().String()}, s.Endpoints[0].Addresses)
	require.Equal(w, token, s.Metadata.Annotations[tokenAnnotation])
}

// The first leader creates the EndpointSlice, and the next overwrites it. An earlier one is refused.
func TestPublish(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.publish(t.Context(), "primary", first, 7))
	s := w.shown()
	s.Metadata.ResourceVersion = ""
	text, err := json.MarshalIndent(s, "", "  ")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/slice.json") // a test of contrib/recipes reads it with the types of Kubernetes
	require.NoError(t, err)
	require.Equal(t, string(want), string(text)+"\n")

	require.NoError(t, w.publish(t.Context(), "primary", second, 9007199254740993)) // JSON's numbers do not hold it
	w.shows(second, "9007199254740993")
	err = w.publish(t.Context(), "primary", first, 9007199254740992)
	require.ErrorIs(t, err, errLater)
	require.EqualError(t, err, path+"/primary-leader: it shows a later leader: its token is 9007199254740993, and this one 9007199254740992")
	w.shows(second, "9007199254740993")
	require.NoError(t, w.publish(t.Context(), "primary", second, 9007199254740993)) // again, if the answer was lost
}

// hold holds the first request with a method back until release is called.
func (w *world) hold(method string) (held <-chan struct{}, release func()) {
	arrived, released := make(chan struct{}), make(chan struct{})
	var taken atomic.Bool
	w.api.Before(func(r *http.Request) int {
		if r.Method == method && taken.CompareAndSwap(false, true) {
			close(arrived)
			<-released
		}
		return 0
	})
	return arrived, func() { close(released) }
}

// The late write of a leader that was frozen is refused, whether it creates the EndpointSlice or overwrites it.
func TestLateWrite(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t)
			if method == http.MethodPut {
				require.NoError(t, w.publish(t.Context(), "primary", first, 6))
			}
			held, release := w.hold(method)
			late := make(chan error, 1)
			go func() { late <- w.publish(t.Context(), "primary", first, 7) }()
			<-held
			require.NoError(t, w.publish(t.Context(), "primary", second, 8))
			release()
			require.ErrorIs(t, <-late, errLater)
			w.shows(second, "8")
		})
	}
}

// A leader overwrites what has changed since it read it, as long as that is not a later leader's.
func TestConflict(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.publish(t.Context(), "primary", first, 7))
	held, release := w.hold(http.MethodPut)
	published := make(chan error, 1)
	go func() { published <- w.publish(t.Context(), "primary", second, 9) }()
	<-held
	require.NoError(t, w.publish(t.Context(), "primary", first, 8))
	release()
	require.NoError(t, <-published)
	w.shows(second, "9")
}

// The errors say what is wrong.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	w.api.Before(func(*http.Request) int { return http.StatusForbidden })
	require.EqualError(t, w.publish(t.Context(), "primary", first, 7), "GET "+path+"/primary-leader: 403: the test refuses it")
	w.api.Before(func(r *http.Request) int {
		if r.Method == http.MethodPost {
			return http.StatusNotFound // there is no such namespace
		}
		return 0
	})
	require.EqualError(t, w.publish(t.Context(), "primary", first, 7), "POST "+path+": 404: the test refuses it")
	w.api.Before(nil)

	require.NoError(t, w.publish(t.Context(), "primary", first, 7))
	require.ErrorContains(t, w.publish(t.Context(), "primary", netip.MustParseAddrPort("[fd00::1]:8080"), 8), "422: addressType is immutable")
	s := w.shown()
	s.Metadata.Annotations = nil
	require.NoError(t, w.request(t.Context(), http.MethodPut, path+"/primary-leader", s, nil))
	require.ErrorContains(t, w.publish(t.Context(), "primary", first, 8), "annotation leadership/token: ")

	require.NoError(t, os.WriteFile(w.tokenFile, []byte("other"), 0o600))
	require.ErrorContains(t, w.publish(t.Context(), "primary", first, 8), "401: Unauthorized")
	require.NoError(t, os.Remove(w.tokenFile))
	require.ErrorIs(t, w.publish(t.Context(), "primary", first, 8), os.ErrNotExist)
	_, err := inCluster(t.TempDir(), func(string) string { return "" })
	require.ErrorContains(t, err, "not in a pod")
}

// process is a pod.
type process struct {
	store     *memory.Store
	candidate *leadership.Candidate
}

// start starts a pod. The end of the test ends it.
func (w *world) start(on *memory.Service, self netip.AddrPort) *process {
	w.Helper()
	st, err := memory.Open(on, nil)
	require.NoError(w, err)
	c, err := leadership.NewCandidate(st, "primary", self.String(), nil)
	require.NoError(w, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c, w.cluster, "primary", self) }()
	w.Cleanup(func() {
		cancel()
		require.ErrorIs(w, <-ended, context.Canceled)
		require.NoError(w, st.Close())
	})
	return &process{store: st, candidate: c}
}

// acknowledged waits until a pod leads and has acknowledged.
func (w *world) acknowledged(p *process) {
	w.Helper()
	require.Eventually(w, func() bool { return p.candidate.Status().State == leadership.Leading }, 2*time.Minute, time.Millisecond)
}

// A leader that has acknowledged is in the EndpointSlice, and answers. One that can't write does not acknowledge.
func TestLeaders(t *testing.T) {
	w := newWorld(t)
	on := memory.NewService()
	var refused sync.Once
	seen := make(chan struct{})
	w.api.Before(func(r *http.Request) int {
		refused.Do(func() { close(seen) })
		return http.StatusServiceUnavailable
	})
	a := w.start(on, first)
	<-seen
	require.NotEqual(t, leadership.Leading, a.candidate.Status().State)
	w.api.Before(nil)
	w.acknowledged(a)
	require.Equal(t, []string{"10.0.0.1"}, w.shown().Endpoints[0].Addresses)
	require.Regexp(t, `^10.0.0.1:8080 answers with token \d+\n$`, get(a.candidate))

	b := w.start(on, second)
	require.Equal(t, "this process does not lead\n", get(b.candidate))
	a.store.Faults().Expire()
	w.acknowledged(b)
	require.Equal(t, []string{"10.0.0.2"}, w.shown().Endpoints[0].Addresses)
	require.Regexp(t, `^10.0.0.2:8080 answers with token \d+\n$`, get(b.candidate))
}

// get returns what a pod answers.
func get(c *leadership.Candidate) string {
	r := httptest.NewRecorder()
	answer(c)(r, httptest.NewRequest(http.MethodGet, "/", bytes.NewReader(nil)))
	text, _ := io.ReadAll(r.Body)
	return string(text)
}

// A redirect is no success: net/http would follow one of a PUT with a GET, and nothing would be written.
func TestRedirect(t *testing.T) {
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/login" {
			http.Redirect(w, r, "/login", http.StatusFound)
		}
	}))
	defer login.Close()
	w := newWorld(t)
	w.url = login.URL
	err := w.request(t.Context(), http.MethodPut, path+"/primary-leader", slice("primary", first, 7), nil)
	require.True(t, isStatus(err, http.StatusFound), err)
}
