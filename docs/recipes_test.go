package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each program on the page of recipes is part of the file that the page has linked to last, or before that in its section.
// The tests of these files run it.
func TestRecipesAreThoseOfTheFiles(t *testing.T) {
	shown := 0
	for _, section := range strings.Split(pages(t)["recipes.md"], "\n## ") {
		files := ""
		part := regexp.MustCompile("(?ms)\\]\\((\\.\\./[^)#]+)\\)|^```(\\w+)\n(.*?)^```$")
		for _, m := range part.FindAllStringSubmatch(section, -1) {
			if m[1] != "" {
				files += read(t, m[1])
				continue
			}
			require.Contains(t, files, unindented(m[3]))
			shown++
		}
	}
	require.Equal(t, 9, shown)
}

// read returns the text of a file, or of the Go files next to a main.go, without indentation.
func read(t *testing.T, path string) (text string) {
	t.Helper()
	paths := []string{path}
	if filepath.Base(path) == "main.go" {
		var err error
		paths, err = filepath.Glob(filepath.Join(filepath.Dir(path), "*.go"))
		require.NoError(t, err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		text += unindented(string(content))
	}
	return text
}

// unindented returns a text whose lines begin at the margin.
func unindented(text string) string {
	return regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(text, "")
}
