// Demo shows a failover on a real server. It starts the server, one process that follows an election and three that
// stand in it, ends the leader twice, once by SIGKILL and once by SIGTERM, and shows who led when:
//
//	go run ./examples/failover/demo -store zookeeper
//
// It ends with status 0 if each change of leader happened within its bound, in the order of the queue, and was seen by
// the follower; otherwise with status 1 and a sentence on what failed. However it ends, it leaves no process behind,
// and no file either unless it is killed by SIGKILL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/store"
)

// config is what the flags say.
type config struct {
	store string        // kind of service to start
	slack time.Duration // added to every bound
	out   io.Writer
}

func main() {
	c := config{out: os.Stdout}
	flag.StringVar(&c.store, "store", "zookeeper", "`kind` of service to start: "+kinds())
	flag.DurationVar(&c.slack, "slack", 0, "added to every bound, for a machine that is busy with other things")
	flag.Parse()
	// Clean up when the terminal or the reader of the output ends, too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	if err := run(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "demo failed:", err)
		os.Exit(1)
	}
}

// run prepares the scene, plays on it, and clears it away again, however that ended.
func run(ctx context.Context, c config) (err error) {
	start, ok := services[c.store]
	if !ok {
		return fmt.Errorf("there is no demo on store %q; there is one on: %s", c.store, kinds())
	}
	dir, err := os.MkdirTemp("", "failover-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program := filepath.Join(dir, "failover")
	if err := build(ctx, program); err != nil {
		return err
	}
	fmt.Fprintf(c.out, "starting %s\n", c.store)
	svc, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, svc.close()) }()
	st, err := store.Open(ctx, svc.url, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	d := &demo{
		program: program, url: svc.url, store: st,
		crashBound: svc.crashBound + c.slack, resignBound: resignBound + c.slack,
		journal: newJournal(c.out), processes: map[string]*process{},
	}
	ctx, d.fail = context.WithCancelCause(ctx)
	defer d.fail(nil)
	defer d.end() // if play panics
	err = d.play(ctx)
	heard := names(d.journal.all(event.leader))
	d.end() // before the table: no process prints then
	printTable(c.out, d.changes)
	if err != nil {
		return err
	}
	return verdict(d.changes, heard)
}

// build compiles the example program, whose processes are then started without the go command between us and them.
func build(ctx context.Context, program string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/go-leadership/leadership/examples/failover")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, output)
	}
	return nil
}
