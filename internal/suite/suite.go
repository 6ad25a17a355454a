// Package suite runs the conformance suite as a program, against a store that others may use: a process of its own runs
// the cases, and this one clears up after it.
package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
)

// placeVariable tells the process that runs the suite where in the store to run it.
const placeVariable = "LEADERSHIP_CONFORMANCE_PLACE"

// clearLimit bounds the removal of what the suite wrote.
const clearLimit = time.Minute

// ErrInterrupted says that the context has ended.
var ErrInterrupted = errors.New("interrupted")

// Place returns where in the store to run the suite, and true in the process that Supervise has started for that.
func Place() (place string, ok bool) { return os.LookupEnv(placeVariable) }

// Supervise runs the suite in a process of its own, and clears up however that process ends. First, Supervise finds out,
// within the time of trial, whether the store answers and permits what the suite does. child is the command of the
// process, whose error is returned. If ctx ends, the process is ended, the error matches ErrInterrupted, and notes gets a
// line that says what takes so long.
func Supervise(ctx context.Context, rawURL string, trial time.Duration, child *exec.Cmd, notes io.Writer) (err error) {
	place := "leadership-conformance-" + time.Now().UTC().Format("20060102t150405.000000")
	h, err := conformance.URL(rawURL, place)
	if err != nil {
		return err
	}
	wrote, err := try(ctx, h, trial)
	if wrote {
		defer func() {
			if ctx.Err() != nil {
				fmt.Fprintln(notes, "interrupted: removing what the suite wrote, for a minute at most; again to leave it")
			}
			clearing, cancel := context.WithTimeout(context.Background(), clearLimit)
			defer cancel()
			if left := h.Clear(clearing, ""); left != nil {
				err = errors.Join(err, fmt.Errorf("%w\nwhat the suite wrote is left; remove it with\n\t%s", left, removal(rawURL, place)))
			}
		}()
	}
	if err != nil {
		return err
	}
	return run(ctx, child, place)
}

// run runs the process, and ends it when ctx ends.
func run(ctx context.Context, child *exec.Cmd, place string) error {
	child.Env = append(child.Environ(), placeVariable+"="+place)
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	select {
	case err := <-ended:
		if ctx.Err() != nil {
			err = ErrInterrupted
		}
		return err
	case <-ctx.Done():
	}
	_ = child.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(10*time.Second, func() { _ = child.Process.Kill() })
	defer kill.Stop()
	<-ended
	return ErrInterrupted
}

// try finds out whether the store can be reached and permits what the suite does, and whether something was written.
func try(ctx context.Context, h conformance.Harness, limit time.Duration) (wrote bool, err error) {
	trial, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	wrote, err = conformance.Permissions(trial, h)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = ErrInterrupted
	case trial.Err() != nil:
		err = fmt.Errorf("the store did not answer within %v: %w", limit, err)
	}
	return wrote, err
}

// removal is the command that removes what is below a place in the store that a URL names.
func removal(rawURL, place string) string {
	u, err := store.ParseURL(rawURL)
	if err != nil {
		return err.Error()
	}
	at := strings.TrimPrefix(u.Path+"/"+place, "/")
	switch strings.TrimSuffix(u.Scheme, "+tls") {
	case "zookeeper":
		return "zkCli.sh -server " + strings.Join(u.Hosts, ",") + " deleteall '/" + at + "'"
	case "etcd":
		return "etcdctl --endpoints " + strings.Join(u.Hosts, ",") + " del --prefix '" + at + "/'"
	case "consul":
		return "consul kv delete -recurse '" + at + "/'"
	case "file":
		return "rm -r '/" + at + "'"
	}
	return "the store's own tools, below " + at
}
