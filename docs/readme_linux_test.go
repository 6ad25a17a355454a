package docs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/demo"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/go-leadership/leadership/internal/localdir"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/file"
	"github.com/stretchr/testify/require"
)

// The README's program leads. When it is killed, its second process takes over. The README's follower sees both, and the
// file that the README names has the leader's value.
func TestReadmeRuns(t *testing.T) {
	whole.Need(t)
	const where, election = "file:///dev/shm/election?ttl=5s", "database/primary"
	place, err := os.MkdirTemp(localdir.Temp(), "election-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(place)) })
	dir := filepath.Join(place, "election")
	url := "file://" + dir + "?ttl=30s" // a process that is killed does not keep its ballot that long
	programs := blocks(t, "go")
	require.Len(t, programs, 2)
	require.Equal(t, 1, strings.Count(programs[0], where))
	require.Contains(t, strings.Join(blocks(t, "sh"), ""), "cat /dev/shm/election/e/database/primary/_leader ")
	candidate, follower := build(t, strings.Replace(programs[0], where, url, 1)), build(t, program(programs[1]))

	connected := start(t, follower, url).stdout
	require.Equal(t, `connect to ""`, storetest.Receive(t, connected, "the first that the follower knows"))
	leads := func(value string) {
		for said := ""; said != fmt.Sprintf("connect to %q", value); {
			said = storetest.Receive(t, connected, "the follower's knowledge of %s", value)
		}
		storetest.Eventually(t, func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, "e", election, "_leader"))
			return string(text) == value
		}, "%s is in the file", value)
	}
	first := start(t, candidate, "a")
	leads("a")
	second := start(t, candidate, "b")
	st, err := store.Open(t.Context(), url, nil)
	require.NoError(t, err)
	storetest.Eventually(t, func() bool {
		queue, err := st.Ballots(t.Context(), election)
		return err == nil && len(queue) == 2
	}, "the second process stands too")
	require.NoError(t, st.Close())

	require.NoError(t, first.cmd.Process.Kill())
	leads("b")
	require.NoError(t, second.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, second.wait(), "%s", &second.stderr)
	require.Equal(t, `connect to ""`, storetest.Receive(t, connected, "the end of the last leader"))
}

// build compiles a program, as a user of this version of the module does, and returns its path.
func build(t *testing.T, program string) string {
	source := write(t, program)
	binary := strings.TrimSuffix(source, ".go")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source).CombinedOutput()
	require.NoError(t, err, "%s", output)
	return binary
}

// process is a program that runs.
type process struct {
	cmd    *exec.Cmd
	stdout <-chan string // its lines; closed when it has ended
	stderr bytes.Buffer
	ended  chan struct{} // closed when it has ended
	err    error         // how; written before ended is closed
}

// start starts a program, which ends with the test.
func start(t *testing.T, binary string, args ...string) *process {
	lines, p := make(chan string, 100), &process{cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	p.stdout = lines
	out, in := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = in, &p.stderr
	require.NoError(t, p.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	go func() {
		p.err = p.cmd.Wait()
		in.Close()
		<-read
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.wait()
	})
	return p
}

// wait waits until the program has ended, and returns its error.
func (p *process) wait() error {
	<-p.ended
	return p.err
}

// The README shows what the demo prints, except for some lines and the numbers.
func TestDemoIsAsShown(t *testing.T) {
	whole.Need(t)
	shown := lines(blocks(t, "")[0])
	require.Regexp(t, `^\$ make demo$`, shown[0])
	var out bytes.Buffer
	require.NoError(t, demo.Run(t.Context(), demo.Config{Out: &out, Slack: time.Minute}))
	next := 1
	for _, line := range lines(out.String()) {
		if next < len(shown) && masked(line) == masked(shown[next]) {
			next++
		}
	}
	require.Equal(t, len(shown), next, "the demo does not print the line that follows %q; it prints\n%s", shown[next-1], &out)
}

// lines returns the lines that are not empty.
func lines(text string) (list []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// masked returns a line without its numbers, and the spaces that depend on them.
func masked(line string) string {
	line = regexp.MustCompile(`\d[\d.:]*(m\d+)?( ?m?s)?`).ReplaceAllString(line, "#")
	return strings.Join(strings.Fields(line), " ")
}
