// Package demo shows failovers: three candidates and a follower, each a process of its own, on any store. The leader is
// killed, the next one frozen, and the one after that resigns. The demo shows who leads, and measures each failover
// against the bound that the store documents. Its processes are the program itself, started again: see Child.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/localdir"
	"github.com/go-leadership/leadership/store"
)

// Config says where to play, and where to show it. All fields but Out have defaults.
type Config struct {
	URL    string        // of the store. Default: store/file in a temporary directory; the program imports the package
	TTL    time.Duration // of a store that the demo starts. Default: 2 s, and 3 s with a server
	Crash  time.Duration // bound from a leader's crash to its successor's election. Default: the store's, for default servers
	Slack  time.Duration // added to every bound, for a machine that is busy with other things. Default: 0
	Pace   time.Duration // a pause after each act, to read it. Default: none
	Out    io.Writer     // gets what the demo shows
	Screen *Screen       // Out is this terminal, and is redrawn in place. Default: Out gets a line for each event
}

// Run plays the demo and returns an error if a failover was not as promised. It ends early when ctx ends. When Run
// returns, the demo's processes have ended, and its temporary directory is removed.
func Run(ctx context.Context, c Config) (err error) {
	if c.URL == "" {
		var dir string
		dir, err = os.MkdirTemp(localdir.Temp(), "leadership-demo-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		path := strings.NewReplacer("%", "%25", "#", "%23", "?", "%3F", "@", "%40").Replace(filepath.ToSlash(dir))
		c.URL = fmt.Sprintf("file://%s/store?ttl=%v", path, cmp.Or(c.TTL, 2*time.Second))
	}
	u, err := store.ParseURL(c.URL)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, c.URL, &store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	s := &scene{
		program: program, url: c.URL, address: u.String(), store: st,
		bounds: boundsOf(u.Scheme, st.TTL(), c), pace: c.Pace, view: &lines{c.Out},
	}
	if c.Screen != nil {
		s.view = &frames{out: c.Out, screen: c.Screen}
	}
	if err := s.show(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.Out, "as promised: one leader at a time, in line, tokens grow, within the bounds")
	return err
}

// show opens the scene, plays, closes the scene, and judges.
func (s *scene) show(ctx context.Context) error {
	if err := s.open(); err != nil {
		return err
	}
	err := func() error {
		defer s.close() // if play panics, too
		return s.play(ctx)
	}()
	if shown := s.view.end(s); err == nil {
		err = shown
	}
	if err == nil {
		err = verdict(s.turns)
	}
	return err
}

// handOver is the bound of what takes one notification, a few milliseconds. The rest is for a process that has to wait
// for a processor.
const handOver = time.Second

// bounds are how long a failover may take. Zero: there is no bound.
type bounds struct{ kill, freeze, resign time.Duration }

// Bound returns how long an election may be without a leader after the leader's crash, as the store documents it, with the
// service's settings at their defaults; 0 for a store that is not known.
func Bound(scheme string, ttl time.Duration) time.Duration {
	consul := ttl + 1500*time.Millisecond
	if ttl >= 10*time.Second {
		consul = 2*ttl + time.Second
	}
	const twoTicks = 4 * time.Second
	return map[string]time.Duration{
		"file": ttl + handOver, "etcd": ttl + time.Second, "zookeeper": ttl + twoTicks, "consul": consul,
		"postgres": ttl*5/4 + time.Second,
	}[strings.TrimSuffix(scheme, "+tls")]
}

// boundsOf returns the bounds of a store.
func boundsOf(scheme string, ttl time.Duration, c Config) bounds {
	crash := cmp.Or(c.Crash, Bound(scheme, ttl))
	if crash > 0 {
		crash += c.Slack
	}
	b := bounds{crash, crash, handOver + c.Slack}
	if scheme == "file" {
		b.kill = b.resign // the kernel tells of a process's end
	}
	return b
}

// milliseconds prints a duration as a person compares it.
func milliseconds(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
