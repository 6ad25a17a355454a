package demo

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main is the main function of a program that only shows the demo. It parses the flags, calls run, and exits with
// status 0 if all was as promised, otherwise with 1. It calls Child too.
func Main(run func(ctx context.Context, c Config) error) {
	Child()
	c := Config{Out: os.Stdout, Screen: Terminal(os.Stdout)}
	flag.DurationVar(&c.Pace, "pace", 750*time.Millisecond, "`time` to read after each act")
	flag.DurationVar(&c.Slack, "slack", 0, "`time` added to every bound, for a machine that is busy with other things")
	flag.Parse()
	// These signals end the demo in order, so that it removes its directory.
	ctx, stop := signal.NotifyContext(context.Background(),
		os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGQUIT)
	defer stop()
	if err := run(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "demo failed:", err)
		os.Exit(1)
	}
}
