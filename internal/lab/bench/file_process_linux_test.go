package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/file"
	"github.com/stretchr/testify/require"
)

// monotonic reads CLOCK_MONOTONIC, which is the same in all processes.
func monotonic() time.Duration {
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}

// other is another process. It carries out one command per line, and answers with the time at which it was done, or
// with another number.
type other struct {
	*exec.Cmd
	commands io.WriteCloser
	answers  chan time.Duration
}

func newOther(b *testing.B, role string, environment ...string) *other {
	b.Helper()
	o := &other{Cmd: exec.Command("/proc/self/exe"), answers: make(chan time.Duration, 1)}
	o.Env = append(append(os.Environ(), roleVariable+"="+role), environment...)
	o.Stderr = os.Stderr
	var err error
	o.commands, err = o.StdinPipe() // closed by Wait, or by our own end
	require.NoError(b, err)
	answers, err := o.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, o.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(answers); lines.Scan(); {
			n, _ := strconv.ParseInt(lines.Text(), 10, 64)
			o.answers <- time.Duration(n)
		}
	}()
	b.Cleanup(func() {
		_ = o.commands.Close()
		_ = o.Process.Kill()
		<-ended
		_ = o.Wait()
	})
	return o
}

// tell sends a command.
func (o *other) tell(b *testing.B, command string) {
	b.Helper()
	_, err := fmt.Fprintln(o.commands, command)
	require.NoError(b, err)
}

// answer returns the next answer, or the next number that the process prints by itself.
func (o *other) answer(b *testing.B) time.Duration {
	b.Helper()
	return receive(b, o.answers, "an answer")
}

// ask sends a command and returns the answer.
func (o *other) ask(b *testing.B, command string) time.Duration {
	b.Helper()
	o.tell(b, command)
	return o.answer(b)
}

// The environment variables of such a process.
const (
	otherDirectory = "LEADERSHIP_BENCH_DIRECTORY"
	roleWatcher    = "file-watcher"
	roleMember     = "file-member"
)

func init() {
	roles[roleWatcher] = watchFiles
	roles[roleMember] = beMember
}

// watchFiles prints the time of each rename in the directory: the floor is measured with it.
func watchFiles() error {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
	if err != nil {
		return err
	}
	if _, err := syscall.InotifyAddWatch(fd, os.Getenv(otherDirectory), syscall.IN_MOVED_TO); err != nil {
		return err
	}
	fmt.Println(0) // the watch is set
	buf := make([]byte, 4096)
	for {
		_, err := syscall.Read(fd, buf)
		at := monotonic()
		if err != nil {
			return err
		}
		fmt.Println(int64(at))
	}
}

// beMember takes part in elections.
func beMember() error {
	st, err := file.Open(file.Config{Directory: os.Getenv(otherDirectory), TTL: ttl})
	if err != nil {
		return err
	}
	defer st.Close()
	m := &benchMember{store: st, cast: make(chan struct{}, 1)}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command, n, _ := strings.Cut(lines.Text(), " ")
		number, _ := strconv.Atoi(n)
		if err := m.do(command, number); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	return nil
}

type benchMember struct {
	store     store.Store
	cast      chan struct{}
	candidate *leadership.Candidate
	term      *leadership.Term // written by the goroutine that stands, before the answer that its reader waits for
}

func (m *benchMember) do(command string, number int) error {
	switch ctx := context.Background(); command {
	case "stand": // answers when the ballot is cast, and again when it leads
		if m.candidate == nil {
			var err error
			if m.candidate, err = leadership.NewCandidate(casting{m.store, m.cast}, fileElection, "other", nil); err != nil {
				return err
			}
		}
		go func() { // until it leads, or the process ends
			term, err := m.candidate.Campaign(ctx)
			at := monotonic()
			if err != nil || !m.candidate.IsLeader() {
				fmt.Fprintln(os.Stderr, "does not lead:", err)
				os.Exit(1)
			}
			m.term = term
			fmt.Println(int64(at))
		}()
		<-m.cast
		fmt.Println(0)
	case "acknowledge":
		at := monotonic()
		if err := m.term.Acknowledge(ctx); err != nil {
			return err
		}
		fmt.Println(int64(at))
	case "resign":
		at := monotonic()
		if err := m.term.Withdraw(ctx); err != nil {
			return err
		}
		fmt.Println(int64(at))
	case roleLeading, roleWaiting, roleFollowing: // in many elections
		for i := range number {
			if err := m.take(ctx, command, fmt.Sprint("idle/", i)); err != nil {
				return err
			}
		}
		fmt.Println(0)
	case "processor": // answers with the processor time that it has used
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return err
		}
		fmt.Println(u.Utime.Nano() + u.Stime.Nano())
	}
	return nil
}

// take takes part in an election that stays idle.
func (m *benchMember) take(ctx context.Context, role, election string) error {
	if role == roleFollowing {
		f, err := leadership.NewFollower(m.store, election, nil)
		if err == nil {
			_, err = f.Wait(ctx)
		}
		return err
	}
	c, err := leadership.NewCandidate(casting{m.store, m.cast}, election, "other", nil)
	if err != nil {
		return err
	}
	if role == roleLeading {
		term, err := c.Campaign(ctx)
		if err != nil {
			return err
		}
		<-m.cast
		return term.Acknowledge(ctx)
	}
	go func() { _, _ = c.Campaign(ctx) }() // until the process ends
	<-m.cast
	return nil
}
