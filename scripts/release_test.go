package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// release names the version in each go.mod and in go.work, ends the changelog's section, and tags each released module. It
// refuses what would make a wrong release, and then changes nothing.
func TestReleaseScript(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "git %q: %s", args, output)
		return strings.TrimSpace(string(output))
	}
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		return string(text)
	}
	release := func(version string) (string, error) {
		cmd := exec.Command(filepath.Join(root, "scripts/release"), version)
		cmd.Env = append(os.Environ(), "CHECK=true", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	text, err := os.ReadFile("release")
	require.NoError(t, err)
	git("init", "--quiet")
	write("scripts/release", string(text))
	write("scripts/tidy", "#!/bin/sh\n")
	const library = "github.com/go-leadership/leadership"
	write("go.work", "use .\n\nreplace (\n\t"+library+" v0.1.0 => .\n\t"+library+"/store/postgres v0.1.0 => ./store/postgres\n)\n")
	write("go.mod", "module "+library+"\n\nrequire example.org/other v0.1.0\n")
	write("store/postgres/go.mod", "module "+library+"/store/postgres\n\nrequire (\n\t"+library+" v0.1.0\n\texample.org/other v0.1.0\n)\n")
	write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n")
	git("add", ".")
	git("commit", "--quiet", "--message", "first")

	refuses := func(version, why string) {
		t.Helper()
		output, err := release(version)
		require.Error(t, err)
		require.Contains(t, output, why)
		require.Empty(t, git("tag"))
		require.Contains(t, read("go.work"), library+" v0.1.0 =>")
	}
	refuses("1.2.3", "usage: scripts/release VERSION")
	refuses("v1.2", "usage: scripts/release VERSION")
	refuses("v0.2.0", "CHANGELOG.md has nothing below [Unreleased]")
	write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- More.\n\n## [v0.1.0] - 2026-01-01\n\n- All.\n")
	refuses("v0.2.0", "there are changes that are not committed")
	git("commit", "--quiet", "--all", "--message", "more")

	output, err := release("v0.2.0")
	require.NoError(t, err, output)
	require.Regexp(t, `(?s)## \[Unreleased\]\n\n## \[v0\.2\.0\] - \d{4}-\d\d-\d\d\n\n- More\.\n\n## \[v0\.1\.0\]`, read("CHANGELOG.md"))
	require.Contains(t, read("go.work"), library+" v0.2.0 => .\n\t"+library+"/store/postgres v0.2.0 =>")
	require.Contains(t, read("store/postgres/go.mod"), library+" v0.2.0\n\texample.org/other v0.1.0\n")
	require.Empty(t, git("status", "--porcelain"))
	require.Equal(t, strings.Fields("cmd/leadership/v0.2.0 contrib/grpcresolver/v0.2.0 contrib/otel/v0.2.0 contrib/prom/v0.2.0 store/postgres/v0.2.0 v0.2.0"), strings.Fields(git("tag")))

	output, err = release("v0.2.0")
	require.Error(t, err)
	require.Contains(t, output, "the tag v0.2.0 exists")
}
