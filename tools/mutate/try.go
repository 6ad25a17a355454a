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
)

// verdict is what became of a mutant.
type verdict string

const (
	killed            verdict = "killed"
	timedOut          verdict = "timed-out" // counts as killed: the limit is a multiple of the tests' time without a change
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

// try runs the tests on a mutant until one fails, and returns what the failure was.
func try(ctx context.Context, m mutant, all []*tests) (v verdict, failure string, err error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir)
	if err != nil {
		return "", "", err
	}
	for _, t := range all {
		o, err := t.try(ctx, overlay)
		switch {
		case err != nil:
			return "", "", fmt.Errorf("%s: %w", m.name, err)
		case o.err == nil:
		case strings.Contains(o.output, "[build failed]"), strings.Contains(o.output, "[setup failed]"):
			return invalid, "", nil
		case o.hung:
			return timedOut, failureIn(o.output), nil
		default:
			return killed, failureIn(o.output), nil
		}
	}
	return survived, "", nil
}

var failures = regexp.MustCompile(`(?m)^\s*--- FAIL: \S+|^panic: test timed out.*\n\s*running tests:\n.*|^panic: .*|^fatal error: .*`)

// failureIn returns what stands first in the output of tests: the test that failed, or why the program ended.
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
