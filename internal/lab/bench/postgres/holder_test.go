package postgres

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The environment variables of a holder: a process that leads until something happens to it.
const (
	holderContender = "LEADERSHIP_BENCH_CONTENDER"
	holderURL       = "LEADERSHIP_BENCH_URL"
	holderElection  = "LEADERSHIP_BENCH_ELECTION"
)

// hold is the other process. It prints a line when it leads. For each line of its input it prints whether it still takes
// itself for the leader, and when it did for the last time.
func hold() error {
	c := contenderNamed(os.Getenv(holderContender))
	p, err := c.open(context.Background(), os.Getenv(holderURL), c.ttl(short))
	if err != nil {
		return err
	}
	led := make(chan struct{}, 1)
	one, err := p.enter(os.Getenv(holderElection), "holder", func() {
		select {
		case led <- struct{}{}:
		default: // it leads again
		}
	})
	if err != nil {
		return err
	}
	if err := one.stand(); err != nil {
		return err
	}
	<-led
	fmt.Println("leads")
	questions := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			questions <- struct{}{}
		}
		close(questions)
	}()
	last, leads := time.Now(), true
	for tick := time.NewTicker(time.Millisecond); ; {
		select {
		case <-tick.C:
		case _, ok := <-questions:
			if !ok {
				return nil
			}
			fmt.Println(leads, last.UnixNano())
		}
		if now := time.Now(); leads && one.leads() {
			last = now
		} else {
			leads = false // it might lead again later, which is another term
		}
	}
}

// holder is that process, whose connections pass through a proxy.
type holder struct {
	proxy   *proxy
	process *exec.Cmd
	in      io.Writer
	out     chan string // receives its lines
}

// newHolder returns when the holder leads.
func newHolder(tb testing.TB, s *server, c *contender, election string) *holder {
	tb.Helper()
	h := &holder{proxy: newProxy(tb, s.address()), process: exec.Command(os.Args[0]), out: make(chan string, 1)}
	h.process.Env = append(os.Environ(), holderContender+"="+c.name, holderElection+"="+election,
		holderURL+"="+s.url(candidate, h.proxy.address()))
	h.process.Stderr = os.Stderr
	in, err := h.process.StdinPipe()
	require.NoError(tb, err)
	h.in = in
	out, err := h.process.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, h.process.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.out <- lines.Text()
		}
	}()
	tb.Cleanup(func() {
		_ = h.process.Process.Kill()
		<-read
		_ = h.process.Wait()
	})
	require.Equal(tb, "leads", receive(tb, h.out, "the holder to lead"))
	return h
}

func (h *holder) signal(tb testing.TB, signal syscall.Signal) {
	tb.Helper()
	require.NoError(tb, h.process.Process.Signal(signal))
}

// led returns when the holder took itself for the leader for the last time, which might be now.
func (h *holder) led(tb testing.TB) (last time.Time, leads bool) {
	tb.Helper()
	_, err := fmt.Fprintln(h.in)
	require.NoError(tb, err)
	var nanoseconds int64
	_, err = fmt.Sscan(receive(tb, h.out, "the holder's answer"), &leads, &nanoseconds)
	require.NoError(tb, err)
	return time.Unix(0, nanoseconds), leads
}
