package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func example(t *testing.T, name string) string {
	text, err := os.ReadFile("../../examples/command/" + name)
	require.NoError(t, err)
	return string(text)
}

// settings returns the lines "name=value" of a file as "section.name". If a name is given twice, the values are joined.
func settings(text string) map[string]string {
	set := map[string]string{}
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		case ok:
			set[section+"."+name] = strings.TrimSpace(set[section+"."+name] + " " + value)
		}
	}
	return set
}

// parseRun parses a command line of an example, as leadership does, and checks the URL of its store.
func parseRun(t *testing.T, line, url string) runCmd {
	args := splitLine(line)
	require.Equal(t, "leadership", args[0][strings.LastIndexByte(args[0], '/')+1:])
	var g grammar
	parser, err := kong.New(&g)
	require.NoError(t, err)
	_, err = parser.Parse(args[1:])
	require.NoError(t, err, line)
	url = regexp.MustCompile(`[&?]passwordfile=[^&]*`).ReplaceAllString(url, "") // the file is not on this machine
	g.Run.Store, g.Run.Election = url, "e"
	require.NoError(t, g.Run.check())
	require.False(t, hasPassword(url))
	u, err := store.ParseURL(url)
	require.NoError(t, err)
	ttl, grace := u.Session()
	require.LessOrEqual(t, value(g.Run.StopTimeout, 0), times(ttl, grace).MaxStopTimeout())
	return g.Run
}

// splitLine splits a line at spaces that are not between quotes.
func splitLine(line string) (args []string) {
	quotes := regexp.MustCompile(`'([^']*)'|"([^"]*)"`)
	for _, word := range regexp.MustCompile(`('[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(line, -1) {
		args = append(args, quotes.ReplaceAllString(word, "$1$2"))
	}
	return args
}

func TestExampleUnit(t *testing.T) {
	set := settings(example(t, "primary.service"))
	for name, value := range map[string]string{
		"Type": "notify", "NotifyAccess": "main", "KillMode": "mixed", "Delegate": "yes", "SuccessExitStatus": "143", "Restart": "on-failure",
	} {
		require.Equal(t, value, set["Service."+name], name)
	}
	_, err := time.ParseDuration(set["Service.WatchdogSec"])
	require.NoError(t, err)
	url := regexp.MustCompile(`"LEADERSHIP_STORE=([^"]*)"`).FindStringSubmatch(set["Service.Environment"])
	require.Len(t, url, 2)
	run := parseRun(t, set["Service.ExecStart"], url[1])
	require.True(t, run.Again)
	require.Equal(t, []string{"/usr/local/lib/database/primary"}, run.Command)
	require.Equal(t, "1min", set["Service.TimeoutStopSec"], "it is more than the stop timeout")
	require.Less(t, value(run.StopTimeout, 0), time.Minute)
}

// The timers of all machines go off at the same time, and the machines that do not lead give up before the first one gives
// the leadership back.
func TestExampleTimer(t *testing.T) {
	timer, service := settings(example(t, "nightly-cleanup.timer")), settings(example(t, "nightly-cleanup.service"))
	accuracy, err := time.ParseDuration(timer["Timer.AccuracySec"])
	require.NoError(t, err)
	url := regexp.MustCompile(`"LEADERSHIP_STORE=([^"]*)"`).FindStringSubmatch(service["Service.Environment"])
	require.Len(t, url, 2)
	run := parseRun(t, service["Service.ExecStart"], url[1])
	require.Less(t, value(run.Wait, 0)+accuracy, run.Linger/2)
	for name, value := range map[string]string{"Type": "oneshot", "SuccessExitStatus": "124", "KillMode": "mixed"} {
		require.Equal(t, value, service["Service."+name], name)
	}
}

// systemd reads the units without a complaint. Their programs are not on this machine, so others take their place.
func TestExampleUnitsAreVerified(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd is not installed: make setup installs it")
	}
	program, err := exec.LookPath("true")
	require.NoError(t, err)
	dir := t.TempDir()
	verify := []string{"verify", "--man=no"}
	for _, name := range []string{"primary.service", "backup.service", "nightly-cleanup.service", "nightly-cleanup.timer", "../lifeline/lifeline.service"} {
		text := regexp.MustCompile(`(?m)^(Exec\w+=)/usr/local/\S+`).ReplaceAllString(example(t, name), "${1}"+program)
		verify = append(verify, filepath.Join(dir, filepath.Base(name)))
		require.NoError(t, os.WriteFile(verify[len(verify)-1], []byte(text), 0o600))
	}
	output, err := exec.Command(analyze, verify...).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Empty(t, string(output))
}

func TestExampleContainer(t *testing.T) {
	entry := regexp.MustCompile(`(?m)^ENTRYPOINT (.*)$`).FindStringSubmatch(example(t, "Containerfile"))
	require.Len(t, entry, 2)
	var args []string
	require.NoError(t, json.Unmarshal([]byte(entry[1]), &args))
	run := parseRun(t, strings.Join(append(args, "/usr/local/bin/worker", "--again=no"), " "), "etcd://h:2379/")
	require.Equal(t, []string{"/usr/local/bin/worker", "--again=no"}, run.Command)
	build := regexp.MustCompile(`go build -C /src -o /out/leadership (\./\S+)`).FindStringSubmatch(example(t, "Containerfile"))
	require.Len(t, build, 2)
	require.FileExists(t, filepath.Join("../..", build[1], "main.go"))
	require.Contains(t, example(t, "Containerfile"), "/etc/ssl/certs/ca-certificates.crt")
}

// The lifelines of the examples are started by command lines that the program takes, where the programs' URLs say.
func TestExampleLifelines(t *testing.T) {
	unit := settings(example(t, "../lifeline/lifeline.service"))
	daemon := parseLifeline(t, splitLine(unit["Service.ExecStart"])[1:])
	require.Equal(t, "/run/"+unit["Service.RuntimeDirectory"]+"/lifeline", daemon.Listen)
	require.Equal(t, "notify", unit["Service.Type"])

	entry := regexp.MustCompile(`(?m)^ENTRYPOINT (.*)$`).FindStringSubmatch(example(t, "../lifeline/Containerfile"))
	require.Len(t, entry, 2)
	var args []string
	require.NoError(t, json.Unmarshal([]byte(entry[1]), &args))
	require.Equal(t, []string{"/usr/local/bin/worker"}, parseLifeline(t, args[1:]).Program)

	pod := example(t, "../lifeline/pod.yaml") // contrib/recipes decodes it
	sidecar := regexp.MustCompile(`command: \[leadership, (.*)\]`).FindStringSubmatch(pod)
	require.Len(t, sidecar, 2)
	socket := parseLifeline(t, strings.Split(sidecar[1], ", ")).Listen
	require.Contains(t, pod, "&lifeline="+socket+"\n")
	require.Equal(t, 2, strings.Count(pod, "mountPath: "+filepath.Dir(socket)+"}"))
}

func parseLifeline(t *testing.T, args []string) lifelineCmd {
	var g grammar
	parser, err := kong.New(&g)
	require.NoError(t, err)
	_, err = parser.Parse(args)
	require.NoError(t, err)
	require.NoError(t, g.Lifeline.check())
	return g.Lifeline
}

func TestExampleSupervisor(t *testing.T) {
	set := settings(example(t, "supervisord.conf"))
	url := regexp.MustCompile(`LEADERSHIP_STORE="([^"]*)"`).FindStringSubmatch(set["program:worker.environment"])
	require.Len(t, url, 2)
	parseRun(t, set["program:worker.command"], url[1])
	require.Equal(t, "TERM", set["program:worker.stopsignal"])
	require.Equal(t, "false", set["program:worker.stopasgroup"])
}

// The machines that do not lead give up before the first one gives the leadership back.
func TestExampleCrontab(t *testing.T) {
	text := example(t, "crontab")
	line := regexp.MustCompile(`(?m)^(?:\S+ ){5}(/.*)$`).FindStringSubmatch(text)
	require.Len(t, line, 2)
	run := parseRun(t, line[1], settings(text)[".LEADERSHIP_STORE"])
	require.Less(t, value(run.Wait, 0), run.Linger/2)
}

func TestExampleScript(t *testing.T) {
	for _, name := range []string{"primary", "nightly-report"} {
		require.NoError(t, exec.Command("sh", "-n", "../../examples/command/"+name).Run())
	}
}
