package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// installed returns the path of a program of Prometheus.
func installed(t *testing.T, name string) string {
	t.Helper()
	whole.Need(t)
	path, err := exec.LookPath(name)
	require.NoError(t, err, "run scripts/setup prometheus")
	return path
}

// promtool runs promtool, and returns what it prints.
func promtool(t *testing.T, stdin io.Reader, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), installed(t, "promtool"), args...)
	cmd.Stdin = stdin
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// prometheus is a server.
type prometheus struct {
	url    string
	client http.Client
}

var listens = regexp.MustCompile(`msg="Listening on".* address=(\S+)`)

// start starts a server with this configuration, and ends it when the test does.
func start(t *testing.T, config string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.Command(installed(t, "prometheus"), "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, out, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = out, out
	started, exited := make(chan error, 1), make(chan struct{})
	go func() { // on one thread: the kernel sends Pdeathsig when the thread ends
		defer close(exited)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_ = out.Close()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	require.NoError(t, <-started)

	address, lines := make(chan string, 1), make(chan string, 1)
	go func() {
		defer close(lines)
		defer log.Close()
		all := ""
		for scanner := bufio.NewScanner(log); scanner.Scan(); {
			all += scanner.Text() + "\n"
			if m := listens.FindStringSubmatch(scanner.Text()); m != nil {
				select {
				case address <- m[1]:
				default:
				}
			}
		}
		lines <- all
	}()
	p := &prometheus{}
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-exited
		if said := <-lines; t.Failed() {
			t.Log(said)
		}
	})
	select {
	case a := <-address:
		p.url = "http://" + a
	case <-exited:
		require.FailNow(t, "prometheus has exited")
	case <-time.After(watchdog):
		require.FailNow(t, "prometheus does not listen")
	}
	return p
}

// get asks the server's API, and returns the field data of the answer.
func (p *prometheus) get(ctx context.Context, path string, query url.Values, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		return fmt.Errorf("%s: %w", answer.Status, err)
	}
	if body.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, body.Error)
	}
	return nil
}

// query evaluates an expression, and returns the labels of the series that it has.
func (p *prometheus) query(ctx context.Context, expr string) ([]map[string]string, error) {
	var data struct {
		Result []struct{ Metric map[string]string }
	}
	err := p.get(ctx, "/api/v1/query", url.Values{"query": {expr}}, &data)
	series := make([]map[string]string, 0, len(data.Result))
	for _, r := range data.Result {
		series = append(series, r.Metric)
	}
	return series, err
}

// watchdog ends a wait for what ought to take seconds.
const watchdog = 2 * time.Minute

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func(ctx context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	for {
		ok, err := holds(ctx)
		if ok && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			require.FailNow(t, what, "not within %v: %v", watchdog, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
