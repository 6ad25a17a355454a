package faults

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutation is a change to the source of the program. It makes the program cause a fault by itself, or break a promise.
type mutation struct {
	file, right, wrong string

	once sync.Once
	path string // of the program, when once is over
}

// diesEarly makes the guardian die after it has cloned the init, and before the init may start the command, except in the
// self-test.
var diesEarly = &mutation{
	file:  "internal/guard/wards_linux.go",
	right: "return ours.send(request{Start: true})",
	wrong: "if n.settings.SelfTest {\nreturn ours.send(request{Start: true})\n}\nreturn unix.Kill(os.Getpid(), unix.SIGKILL)",
}

// mutants are mistakes, each with a cell that must show it: the old command goes on beside the rival's.
var mutants = []struct {
	name                 string
	fault, mode, variant string
	lifeline             bool // on etcd, with a lifeline
	mutation             *mutation
}{
	{"no kernel timer", "supervisor and guardian frozen", namespace, "daemon", false, &mutation{
		file:  "internal/guard/guardian_linux.go",
		right: "deadline.add(-g.TimerMargin)",
		wrong: "func() instant {\nif g.SelfTest {\nreturn deadline.add(-g.TimerMargin)\n}\nreturn now().add(time.Hour)\n}()",
	}},
	{"release on the guardian's exit", "guardian killed", subreaper, "daemon", false, &mutation{
		file:  "internal/guard/supervisor_linux.go",
		right: "for !v.gone() {",
		wrong: "for !v.gone() && v.guardian != 0 {",
	}},
	{"no copy of the lifeline's pipe", "guardian and init frozen (cgroup v2), supervisor killed", namespace, "daemon", true, &mutation{
		file:  "run_term.go",
		right: "s.keep = append(s.keep, file)",
		wrong: "_ = file",
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
				user: user, old: m.mutation.build(t, p),
			}
			if m.lifeline {
				c.service = servers(t, "etcd", sharedEtcd(t).Addrs()[0])
			}
			if why := c.missing(); why != "" {
				t.Skip(why)
			}
			require.True(t, c.covered())
			require.NotZero(t, c.try(t).beats, "the trial does not show the mutant")
		})
	}
}

// build builds the mutant, once.
func (m *mutation) build(t *testing.T, p programs) string {
	t.Helper()
	m.once.Do(func() {
		path, err := filepath.Abs("../" + m.file)
		require.NoError(t, err)
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(source), m.right), "%s does not have, once: %s", m.file, m.right)
		dir, err := os.MkdirTemp(p.dir, "mutant-")
		require.NoError(t, err)
		require.NoError(t, os.Chmod(dir, 0o755))
		require.NoError(t, os.WriteFile(dir+"/mutant.go", []byte(strings.Replace(string(source), m.right, m.wrong, 1)), 0o644))
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: dir + "/mutant.go"}})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(dir+"/overlay.json", overlay, 0o644))
		goBuild(t, "-overlay", dir+"/overlay.json", "-o", dir+"/leadership", "..")
		m.path = dir + "/leadership"
	})
	require.NotEmpty(t, m.path, "another test could not build it")
	return m.path
}
