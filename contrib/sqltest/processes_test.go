package sqltest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/stretchr/testify/require"
)

// The example: a leader that is stopped in its transaction, and continues after the other process has taken over and
// written, is refused.
func TestTwoProcesses(t *testing.T) {
	whole.Need(t)
	binary := filepath.Join(t.TempDir(), "example")
	out, err := exec.Command("go", "build", "-o", binary, "./example").CombinedOutput()
	require.NoError(t, err, string(out))
	each(t, func(t *testing.T, s *scene) {
		if s.waiting == "" {
			return // SQLite: the example's transaction has the file's lock until it ends
		}
		s.table = "leadership_fence"
		require.NoError(t, s.through(t, s.db).Create(t.Context()))
		require.NoError(t, s.through(t, s.db).Reset(t.Context(), "example/writer")) // the directory below is a new store
		s.exec(t, "DROP TABLE IF EXISTS journal")

		elections, err := os.MkdirTemp("/dev/shm", "example")
		require.NoError(t, err)
		defer os.RemoveAll(elections)
		start := func() *process {
			return run(t, binary, "-store", "file://"+elections+"?ttl=4s", "-driver", s.driver, "-source", s.url)
		}
		old := start()
		require.Equal(t, "in the transaction", old.line(t))
		require.NoError(t, old.cmd.Process.Signal(syscall.SIGSTOP))
		next := start()
		require.Equal(t, "in the transaction", next.line(t))
		next.enter(t)
		require.Equal(t, "committed", next.line(t))
		require.NoError(t, old.cmd.Process.Signal(syscall.SIGCONT))
		old.enter(t)
		require.Equal(t, "rolled back: a later leader has raised the fence", old.line(t))
		require.Equal(t, 1, s.count(t, "SELECT count(*) FROM journal"))
		require.Equal(t, 1, s.count(t, "SELECT count(*) FROM journal JOIN leadership_fence ON journal.token = leadership_fence.token"))
	})
}

type process struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func run(t *testing.T, binary string, args ...string) *process {
	cmd := exec.Command(binary, args...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &process{cmd, in, bufio.NewReader(out)}
}

func (p *process) line(t *testing.T) string {
	line, err := p.out.ReadString('\n')
	require.NoError(t, err, line)
	return strings.TrimSpace(line)
}

func (p *process) enter(t *testing.T) {
	_, err := io.WriteString(p.in, "\n")
	require.NoError(t, err)
}

const nightlyReport = "../../examples/command/nightly-report"

// report is the database of the example nightly-report, and a command report-total for it.
type report struct {
	*scene
	tools string // for the PATH
}

func newReport(t *testing.T, total string) *report {
	whole.Need(t)
	r := &report{databases[0].open(t), t.TempDir()}
	script, err := os.ReadFile(nightlyReport)
	require.NoError(t, err)
	r.table = "leadership_fence"
	require.NoError(t, r.through(t, r.db).Create(t.Context()))
	tables := regexp.MustCompile(`(?m)^#\s+(CREATE TABLE (\w+) .*;)$`).FindAllStringSubmatch(string(script), -1)
	require.Len(t, tables, 2)
	for _, table := range tables {
		r.exec(t, "DROP TABLE IF EXISTS "+table[2])
		r.exec(t, table[1])
	}
	require.NoError(t, os.WriteFile(filepath.Join(r.tools, "report-total"), []byte("#!/bin/sh\n"+total+"\n"), 0o700))
	return r
}

func (r *report) command(t *testing.T, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "PATH="+r.tools+":"+os.Getenv("PATH"),
		"PGHOST="+postgresql.dir, "PGPORT=5432", "PGUSER=tester", "PGDATABASE=postgres")
	return cmd
}

func (r *report) text(t *testing.T) string {
	text := ""
	require.NoError(t, r.db.QueryRowContext(t.Context(),
		"SELECT coalesce(string_agg(region || ' ' || total, ', ' ORDER BY region), '') || '; runs ' || (SELECT count(*) FROM report_run) FROM report").Scan(&text))
	return text
}

// Three machines run the line of the page. The one that leads is killed with its job; another
// makes the report, and the third finds it made.
func TestNightlyReport(t *testing.T) {
	r := newReport(t, `echo $$ >>calls; [ "$(wc -l <calls)" -gt 1 ] || sleep 1000; echo 7`)
	require.NoError(t, r.through(t, r.db).Reset(t.Context(), "nightly-report")) // the directory below is a new store
	page, err := os.ReadFile("../../docs/command.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^30 3 \* \* \* (leadership run .*nightly-report .*)$`).FindStringSubmatch(string(page))
	require.Len(t, line, 2, "the page has a line for a crontab")

	out, err := exec.Command("go", "build", "-o", filepath.Join(r.tools, "leadership"), "github.com/go-leadership/leadership/cmd/leadership").CombinedOutput()
	require.NoError(t, err, string(out))
	script, err := filepath.Abs(nightlyReport)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(script, filepath.Join(r.tools, "nightly-report")))
	elections, err := os.MkdirTemp("/dev/shm", "cron")
	require.NoError(t, err)
	defer os.RemoveAll(elections)
	work := t.TempDir()

	errs := make([]error, 3)
	machines := make([]*exec.Cmd, 3)
	var running sync.WaitGroup
	for i := range machines {
		m := r.command(t, "/bin/sh", "-c", "exec "+strings.ReplaceAll(line[1], `\%`, "%"))
		m.Env = append(m.Env, "LEADERSHIP_STORE=file://"+elections+"?ttl=4s", "LEADERSHIP_ELECTION=nightly-report")
		m.Dir, m.Stderr = work, t.Output()
		m.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		require.NoError(t, m.Start())
		t.Cleanup(func() { _ = syscall.Kill(-m.Process.Pid, syscall.SIGKILL) })
		machines[i] = m
		running.Go(func() { errs[i] = m.Wait() })
		if i == 0 {
			require.Eventually(t, func() bool {
				_, err := os.Stat(filepath.Join(work, "calls"))
				return err == nil
			}, watchdog, 10*time.Millisecond, "the first job is at work")
		}
	}
	require.NoError(t, machines[0].Process.Signal(syscall.SIGKILL))
	running.Wait()
	require.Error(t, errs[0])
	require.NoError(t, errs[1])
	require.NoError(t, errs[2])
	require.Equal(t, "north 7, south 7; runs 1", r.text(t))
	calls, err := os.ReadFile(filepath.Join(work, "calls"))
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(calls), "\n"), "one by the machine that died, one for each region after that")
}

// A job that continues after the next one has made the report is refused, and so is a job that begins late.
func TestNightlyReportOfAnOldLeader(t *testing.T) {
	r := newReport(t, `[ "$LEADERSHIP_TOKEN" = 6 ] || { : >frozen; read line; }; echo $LEADERSHIP_TOKEN`)
	require.NoError(t, r.through(t, r.db).Reset(t.Context(), "cron/report"))
	dir := t.TempDir()
	job := func(token string) (*exec.Cmd, *strings.Builder) {
		cmd := r.command(t, nightlyReport, "2026-11-27")
		path, err := filepath.Abs(nightlyReport)
		require.NoError(t, err)
		cmd.Path, cmd.Dir = path, dir
		cmd.Env = append(cmd.Env, "LEADERSHIP_ELECTION=cron/report", "LEADERSHIP_TOKEN="+token)
		said := &strings.Builder{}
		cmd.Stderr = said
		return cmd, said
	}
	old, said := job("5")
	in, err := old.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, old.Start())
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "frozen"))
		return err == nil
	}, watchdog, 10*time.Millisecond)

	next, errs := job("6")
	require.NoError(t, next.Run(), errs.String())
	require.Equal(t, "north 6, south 6; runs 1", r.text(t))

	_, err = in.Write([]byte("\n"))
	require.NoError(t, err)
	require.Error(t, old.Wait())
	require.Contains(t, said.String(), "a later leader has raised the fence: nothing was written")
	require.Equal(t, "north 6, south 6; runs 1", r.text(t))

	late, said := job("5")
	require.Error(t, late.Run())
	require.Contains(t, said.String(), "a later leader has raised the fence")

	again, errs := job("6")
	require.NoError(t, again.Run(), errs.String())
	require.Equal(t, "north 6, south 6; runs 1", r.text(t))
}
