package storetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// leaderVariable makes a test binary lead an election instead, see Main: its value is the store's URL and the election.
const leaderVariable = "LEADERSHIP_TEST_LEAD"

// lead leads, and reports on standard output: "leads" with its token, and, each time that this process was stopped for
// half a TTL, "resumed" with the first answer of IsLeader. The process ends with its standard input, or as a line of that
// says. lead returns only if it fails.
func lead(where string) error {
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			switch in.Text() {
			case "panic":
				panic("the test says so")
			case "exit":
				os.Exit(3)
			}
		}
		os.Exit(0)
	}()
	url, election, _ := strings.Cut(where, " ")
	u, err := store.ParseURL(url)
	if err != nil {
		return err
	}
	log := &lifelineLog{}
	u.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ttl, _ := u.Session()
	st, err := store.OpenURL(context.Background(), u)
	if err != nil {
		return err
	}
	c, err := leadership.NewCandidate(st, election, "process", &leadership.CandidateOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	term, err := c.Campaign(context.Background())
	if err != nil {
		return err
	}
	if err := term.Acknowledge(context.Background()); err != nil {
		return err
	}
	for strings.Contains(url, "lifeline=") && !log.hasAnswered() { // its death would cost a TTL until then
		time.Sleep(time.Millisecond)
	}
	last := time.Now() // before others hear of it: they may stop the process from then on
	fmt.Println("leads", term.Token())
	for {
		now := time.Now()
		if leads := c.IsLeader(); now.Sub(last) > ttl/2 {
			fmt.Println("resumed", leads)
		}
		last = now
		time.Sleep(100 * time.Microsecond) // the interval at which it asks
	}
}

// lifelineLog writes to stderr, and looks for what the store says when its lifeline knows of the session.
type lifelineLog struct {
	mu       sync.Mutex
	answered bool // guarded by mu
}

func (l *lifelineLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = l.answered || strings.Contains(string(p), `msg="the lifeline has answered"`)
	return os.Stderr.Write(p)
}

func (l *lifelineLog) hasAnswered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered
}

// process is another process, which leads an election.
type process struct {
	*exec.Cmd
	token uint64 // of its term
	lines *bufio.Reader
	in    io.Writer
}

// startLeader starts another process, which ends with the test, and waits until it leads the election on the store that
// has the URL.
func startLeader(t testing.TB, url, election string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), leaderVariable+"="+url+" "+election)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p := &process{Cmd: cmd, lines: bufio.NewReader(stdout), in: stdin}
	_, err = fmt.Sscanf(p.line(t), "leads %d", &p.token)
	require.NoError(t, err)
	return p
}

// line returns the next line that the process writes.
func (p *process) line(t testing.TB) string {
	t.Helper()
	line := make(chan string, 1)
	go func() {
		s, _ := p.lines.ReadString('\n')
		line <- strings.TrimSpace(s)
	}()
	return Receive(t, line, "a line of the other process")
}
