package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pages returns the pages for readers, by their path below the root.
func pages(t *testing.T) map[string]string {
	all := map[string]string{}
	for _, pattern := range []string{"../*.md", "*.md"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			all[path] = string(text)
		}
	}
	require.Contains(t, all, "../README.md")
	return all
}

// Each test and benchmark that a page names exists.
func TestNamedTestsExist(t *testing.T) {
	exist := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Example)\w+)`)
	require.NoError(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			exist[m[1]] = true
		}
		return err
	}))
	named := regexp.MustCompile(`\b(?:Test|Benchmark|Example)[A-Z]\w*`)
	for path, text := range pages(t) {
		for _, name := range named.FindAllString(text, -1) {
			require.True(t, exist[name], "%s names %s", path, name)
		}
	}
}

// Each link within the repository leads to a file, and to a heading of it.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for path, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, heading, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", path, m[1])
			if heading != "" {
				text, err := os.ReadFile(target)
				require.NoError(t, err)
				require.Contains(t, headings(string(text)), heading, "%s links to %s", path, m[1])
			}
		}
	}
}

// headings returns what links call a page's headings.
func headings(page string) (names []string) {
	dropped := regexp.MustCompile(`[^\pL\pN _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		names = append(names, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return names
}
