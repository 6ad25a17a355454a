package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// rule says how the tests of a package are run, if not like most: with the race detector, beside others.
type rule struct {
	folder   string // of the package, or above it
	plain    bool   // without the race detector, even in make test
	twice    bool   // with and without it: some tests do more without it
	computes bool   // uses a processor all the time: niced, one at a time
	slow     bool   // to build or to run, so not part of make quick, although it starts no server
}

var rules = []rule{
	{folder: "conformance/cluster", plain: true},                    // conformance/servers has the same cases, with the race detector
	{folder: "internal/lab/bench/postgres", slow: true},             // it starts PostgreSQL by itself
	{folder: "cmd/leadership/browsertest", plain: true, slow: true}, // what runs long is the browser
	{folder: "contrib/prom/server", slow: true},
	{folder: "contrib/recipes", plain: true, slow: true}, // what takes long are Kubernetes' packages, for the race detector minutes
	{folder: "contrib/sqltest", plain: true},             // and so does SQLite in Go
	{folder: "examples", slow: true},
	{folder: "internal/lab/simulation", twice: true, computes: true}, // five times as many schedules without it
	{folder: "tools", plain: true, computes: true, slow: true},
}

// longest are the packages that take longest, which are started first.
var longest = []string{
	"conformance/servers", "store/consul", "store/postgres", "cmd/leadership/servers", "store/zookeeper",
	"cmd/leadership/faults", "examples/httpstore", "store/file", "internal/lab/testserver", "store/postgres/cluster", "store/all",
	"conformance/cluster/zookeeper", "store/etcd", "cmd/leadership/internal/guard", "conformance/cluster/consul",
	"conformance/cluster/etcd", "cmd/leadership", "internal/demo", "docs", "conformance", "internal/lifeline", "cmd/leadership/internal/serve", "status/haproxy", "contrib/sqltest",
	"contrib/prom/server", "examples/failover/demo/server", "internal/lab/bench", "internal/lab/bench/postgres", "cmd/leadership/browsertest",
}

// testPackage is a package that has tests.
type testPackage struct {
	rule
	name   string // its folder below the root of the repository, with slashes
	part   string // the same of its module; "library" for the root
	module string // the module's folder, absolute
	path   string // import path
	dir    string // absolute
	quick  bool
	binary string // set by build
}

// list returns the packages of all modules that go.work names.
func list(ctx context.Context, quick bool, folders []string) ([]*testPackage, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	// A test binary is listed as PATH.test.
	lines, err := output(goCommand(ctx, "", "list", "-test", "-f", "{{.ImportPath}}|{{.Dir}}|{{with .Module}}{{.Dir}}{{end}}|{{.Deps}}", "work"))
	if err != nil {
		return nil, err
	}
	var all []*testPackage
	for line := range strings.Lines(lines) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		path, ok := strings.CutSuffix(fields[0], ".test")
		if !ok {
			continue
		}
		p := &testPackage{path: path, dir: fields[1], module: fields[2], quick: quick}
		if p.name, err = filepath.Rel(root, p.dir); err != nil {
			return nil, err
		}
		if p.part, err = filepath.Rel(root, p.module); err != nil {
			return nil, err
		}
		p.name = filepath.ToSlash(p.name)
		if p.part == "." {
			p.part = "library"
		}
		for _, r := range rules {
			if within(p.name, r.folder) {
				p.rule = r
			}
		}
		servers := strings.Contains(fields[3], "/internal/lab/testserver ")
		if !wanted(p.name, folders) || quick && (servers || p.slow) {
			continue
		}
		all = append(all, p)
		if p.twice && !quick {
			plain := *p
			plain.plain = true
			all = append(all, &plain)
		}
	}
	for _, folder := range append(folders, ".") {
		if !slices.ContainsFunc(all, func(p *testPackage) bool { return folder == "." || wanted(p.name, []string{folder}) }) {
			return nil, fmt.Errorf("no package with tests in %q", folder)
		}
	}
	slices.SortStableFunc(all, func(a, b *testPackage) int { return place(a.name) - place(b.name) })
	return all, nil
}

// place is the position in which a package is started.
func place(name string) int {
	if i := slices.Index(longest, name); i >= 0 {
		return i
	}
	return len(longest)
}

func wanted(name string, folders []string) bool {
	return len(folders) == 0 || slices.ContainsFunc(folders, func(folder string) bool { return within(name, filepath.ToSlash(filepath.Clean(folder))) })
}

func within(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// goCommand is the go command in a module's folder, or in the root of the repository with go.work.
func goCommand(ctx context.Context, module string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = module
	cmd.Env = environment(module)
	return cmd
}

// environment is that of a module. The library is built as a program that imports it builds it, without go.work, and the other
// modules take the library from this clone.
func environment(module string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GOWORK=") || strings.HasPrefix(v, allTests+"=")
	})
	if root, err := filepath.Abs("."); err == nil && root == module {
		env = append(env, "GOWORK=off")
	}
	return env
}

func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", errors.Join(fmt.Errorf("%s: %w", cmd, err), errors.New(stderr.String()))
	}
	return stdout.String(), nil
}
