package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/kubernetes"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}

const patience = 30 * time.Second // how long a test waits for what has to come

// world is an API server, and processes that run the controller.
type world struct {
	*testing.T
	api     *kubernetes.Server
	service *memory.Service
}

func newWorld(t *testing.T) *world {
	return &world{T: t, api: kubernetes.New(t, "secret"), service: memory.NewService()}
}

// process is a process with the controller.
type process struct {
	*world
	store     *memory.Store
	candidate *leadership.Candidate
}

// start starts a process. The end of the test ends it.
func (w *world) start(name string, reconciler func(ctrl.Manager, *leadership.Term) reconcile.Reconciler) *process {
	w.Helper()
	st, err := memory.Open(w.service, nil)
	require.NoError(w, err)
	c, err := leadership.NewCandidate(st, "controllers/mine", name, nil)
	require.NoError(w, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	config := &rest.Config{Host: w.api.URL, BearerToken: "secret"}
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.api.Certificate().Raw})
	go func() { ended <- Run(ctx, c, config, reconciler) }()
	w.Cleanup(func() {
		cancel()
		require.ErrorIs(w, <-ended, context.Canceled)
		require.NoError(w, st.Close())
	})
	return &process{world: w, store: st, candidate: c}
}

// marker returns a reconciler that marks each ConfigMap with the token of the term.
func marker(mgr ctrl.Manager, term *leadership.Term) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		var m corev1.ConfigMap
		if err := mgr.GetClient().Get(ctx, r.NamespacedName, &m); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		token := fmt.Sprint(term.Token())
		if m.Annotations["token"] == token {
			return reconcile.Result{}, nil
		}
		marked := m.DeepCopy()
		marked.Annotations = map[string]string{"token": token}
		return reconcile.Result{}, mgr.GetClient().Patch(ctx, marked, client.MergeFromWithOptions(&m, client.MergeFromWithOptimisticLock{}))
	})
}

// create creates a ConfigMap.
func (w *world) create(name string) {
	w.Helper()
	body := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q}}`, name)
	w.request(http.MethodPost, "/api/v1/namespaces/default/configmaps", body)
}

// token returns the mark of a ConfigMap.
func (w *world) token(name string) string {
	w.Helper()
	var m corev1.ConfigMap
	require.NoError(w, json.Unmarshal(w.request(http.MethodGet, "/api/v1/namespaces/default/configmaps/"+name, ""), &m))
	return m.Annotations["token"]
}

func (w *world) request(method, path, body string) []byte {
	w.Helper()
	r, err := http.NewRequest(method, w.api.URL+path, bytes.NewReader([]byte(body)))
	require.NoError(w, err)
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("Content-Type", "application/json")
	response, err := w.api.Client().Do(r)
	require.NoError(w, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(w, err)
	require.Less(w, response.StatusCode, 300, "%s", text)
	return text
}

// leads waits until a process leads and has acknowledged, and returns its token.
func (p *process) leads() string {
	p.Helper()
	require.Eventually(p, func() bool { return p.candidate.Status().State == leadership.Leading }, patience, time.Millisecond)
	return fmt.Sprint(p.candidate.Status().Token)
}

// marked waits until ConfigMaps are marked.
func (w *world) marked(token string, names ...string) {
	w.Helper()
	for _, name := range names {
		require.Eventually(w, func() bool { return w.token(name) == token }, patience, 10*time.Millisecond, name)
	}
}

// The leader reconciles, with a manager in each term: of another process, and of the same one again.
func TestTheLeaderReconciles(t *testing.T) {
	w := newWorld(t)
	w.create("one")
	a := w.start("a", marker)
	token := a.leads()
	w.marked(token, "one")
	b := w.start("b", marker)
	w.create("two")
	w.marked(token, "one", "two")

	a.store.Faults().Expire()
	token = b.leads()
	w.marked(token, "one", "two")
	w.create("three")
	w.marked(token, "three")

	b.candidate.Resign()
	token = a.leads()
	w.marked(token, "one", "two", "three")
}

// The next leader leads when the reconcilers of this one have returned.
func TestTheNextLeaderWaits(t *testing.T) {
	w := newWorld(t)
	w.create("one")
	begun, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	a := w.start("a", func(ctrl.Manager, *leadership.Term) reconcile.Reconciler {
		return reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			once.Do(func() {
				close(begun)
				<-ctx.Done() // it ends with the term
				<-release
			})
			return reconcile.Result{}, nil
		})
	})
	<-begun
	b := w.start("b", marker)
	require.Eventually(t, func() bool { return b.candidate.Status().State == leadership.Waiting }, patience, time.Millisecond)
	a.candidate.Resign()
	require.Never(t, b.candidate.IsLeader, 100*time.Millisecond, 10*time.Millisecond)
	require.Equal(t, leadership.WindingDown, a.candidate.Status().State)
	close(release)
	w.marked(b.leads(), "one")
}

// A leader that can't read from the API server does not acknowledge.
func TestTheAPIServerDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	asked := make(chan struct{}, 1)
	w.api.Before(func(r *http.Request) int {
		if r.URL.Path != "/api/v1/configmaps" {
			return 0
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return http.StatusServiceUnavailable
	})
	a := w.start("a", marker)
	<-asked
	<-asked
	require.Equal(t, leadership.TakingOver, a.candidate.Status().State)
	w.api.Before(nil)
	w.create("one")
	w.marked(a.leads(), "one")
}
