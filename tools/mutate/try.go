package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// verdict is what became of a mutant.
type verdict string

const (
	killed            verdict = "killed"
	timedOut          verdict = "timed-out" // taken for killed: see that -timeout is long enough for a test that passes
	survived          verdict = "SURVIVED"
	survivedExplained verdict = "explained"
	invalid           verdict = "invalid" // it does not compile
)

// sources lists the files of a package that are compiled here, without tests.
func sources(ctx context.Context, pkg string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-f", "{{range .GoFiles}}{{$.Dir}}/{{.}}\n{{end}}", pkg)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pkg, err)
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var files []string
	for _, file := range strings.Fields(string(out)) {
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return nil, err
		}
		files = append(files, rel)
	}
	return files, nil
}

// passes runs the tests without a change: if they fail, every mutant would seem killed.
func passes(ctx context.Context, packages []string) error {
	for _, pkg := range packages {
		if out, err := test(ctx, pkg, ""); err != nil {
			return fmt.Errorf("the tests of %s fail without a change: %w\n%s", pkg, err, out)
		}
	}
	return nil
}

// try runs the tests on a mutant until one fails, and returns what the failure was.
func try(ctx context.Context, m mutant, packages []string) (v verdict, failure string, err error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir)
	if err != nil {
		return "", "", err
	}
	for _, pkg := range packages {
		out, err := test(ctx, pkg, overlay)
		switch {
		case ctx.Err() != nil:
			return "", "", fmt.Errorf("interrupted in %s", m.name)
		case err == nil:
		case strings.Contains(out, "[build failed]"), strings.Contains(out, "[setup failed]"):
			return invalid, "", nil
		case strings.Contains(out, "panic: test timed out") && !strings.Contains(out, "--- FAIL"):
			return timedOut, failureIn(out), nil
		default:
			return killed, failureIn(out), nil
		}
	}
	return survived, "", nil
}

var failures = regexp.MustCompile(`(?m)^\s*--- FAIL: \S+|^panic: test timed out.*\n\s*running tests:\n.*|^panic: .*|^fatal error: .*`)

// failureIn returns what stands first in the output of tests: the test that failed, or why the program ended. A test
// that has run for nearly the whole of -timeout hangs; one that has just begun was in the queue of a busy machine.
func failureIn(out string) string { return short(failures.FindString(out)) }

// overlay writes the changed file, and the overlay by which the go command compiles it instead of the original.
func (m mutant) overlay(dir string) (string, error) {
	changed, err := m.source()
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(dir, "mutant.go")
	if err := os.WriteFile(mutated, changed, 0o644); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, replace, 0o644)
}

// test runs the tests of one package. What it starts ends with it.
func test(ctx context.Context, pkg, overlay string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, *timeout+5*time.Minute) // the program's own end comes first; compiling takes time too
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-p", "1", "-vet=off", "-failfast", "-count=1", "-ldflags=-s -w",
		"-timeout", timeout.String(), "-run", *filter, "-overlay", overlay, pkg)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	return string(out), err
}
