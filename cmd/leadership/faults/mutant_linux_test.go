package faults

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/stretchr/testify/require"
)

// mutation is a change to the source of the program. It makes the program cause a fault by itself, or break a promise.
type mutation struct{ file, right, wrong string }

// diesEarly makes the guardian die after it has cloned the init, and before the init may start the command, except in the
// self-test.
var diesEarly = &mutation{
	"internal/guard/wards_linux.go",
	"return ours.send(request{Start: true})",
	"if n.settings.SelfTest {\nreturn ours.send(request{Start: true})\n}\nreturn unix.Kill(os.Getpid(), unix.SIGKILL)",
}

// mutants are mistakes, each with a cell that must show it: the old command goes on beside the rival's.
var mutants = []struct {
	name                 string
	fault, mode, variant string
	lifeline             bool // on etcd, with a lifeline
	mutation
}{
	{"no kernel timer", "supervisor and guardian frozen", namespace, "daemon", false, mutation{
		"internal/guard/guardian_linux.go",
		"deadline.add(-g.TimerMargin)",
		"func() instant {\nif g.SelfTest {\nreturn deadline.add(-g.TimerMargin)\n}\nreturn now().add(time.Hour)\n}()",
	}},
	{"release on the guardian's exit", "guardian killed", subreaper, "daemon", false, mutation{
		"internal/guard/supervisor_linux.go",
		"for !v.gone() {",
		"for !v.gone() && v.guardian != 0 {",
	}},
	{"no copy of the lifeline's pipe", "guardian and init frozen (cgroup v2), supervisor killed", namespace, "daemon", true, mutation{
		"run_term.go",
		"s.keep = append(s.keep, file)",
		"_ = file",
	}},
}

// TestMutants shows that the table finds mistakes in the guardian.
func TestMutants(t *testing.T) {
	p := build(t)
	user := ordinary
	if look().root {
		user = root
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(faults, func(f fault) bool { return f.name == m.fault })
			c := cell{
				machine: look(), programs: p, service: files, wrapper: run, fault: faults[i], variant: m.variant, mode: m.mode,
				user: user, old: m.build(t),
			}
			if m.lifeline {
				c.service = servers(t, "etcd", testserver.NewEtcd(t, testserver.EtcdConfig{}).Addrs()[0])
			}
			if why := c.missing(); why != "" {
				t.Skip(why)
			}
			require.True(t, c.covered())
			require.NotZero(t, c.try(t).beats, "the trial does not show the mutant")
		})
	}
}

// build builds the mutant.
func (m mutation) build(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../" + m.file)
	require.NoError(t, err)
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), m.right), "%s does not have, once: %s", m.file, m.right)
	dir := publicDir(t)
	require.NoError(t, os.WriteFile(dir+"/mutant.go", []byte(strings.Replace(string(source), m.right, m.wrong, 1)), 0o644))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: dir + "/mutant.go"}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/overlay.json", overlay, 0o644))
	goBuild(t, "-overlay", dir+"/overlay.json", "-o", dir+"/leadership", "..")
	return dir + "/leadership"
}
