package fence_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/fence"
	"github.com/stretchr/testify/require"
)

// The tests on databases are in contrib/sqltest.

// New refuses names of tables that would have to be quoted, and unknown dialects.
func TestNew(t *testing.T) {
	for _, table := range []string{"", "leadership_fence", "public.fence", "_F2.f"} {
		_, err := fence.New(nil, fence.MySQL, &fence.Options{Table: table})
		require.NoError(t, err, table)
	}
	for _, table := range []string{"a b", "a;b", `"a"`, "a.b.c", ".a", "a.", "2a", "ä", "a\n"} {
		_, err := fence.New(nil, fence.MySQL, &fence.Options{Table: table})
		require.Error(t, err, table)
	}
	for _, d := range []fence.Dialect{-1, 3} {
		_, err := fence.New(nil, d, nil)
		require.Error(t, err)
	}
}

// All statements name the table that was asked for.
func TestStatements(t *testing.T) {
	for _, d := range []fence.Dialect{fence.PostgreSQL, fence.MySQL, fence.SQLite} {
		s := d.Statements("ops.tokens")
		for _, text := range []string{s.Create, s.Raise, s.Check, s.Reset} {
			require.Equal(t, 1, strings.Count(text, " ops.tokens"), text)
			require.NotContains(t, text, "leadership_fence")
		}
	}
}

// The page has the statements of the package.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/sql-fence.md")
	require.NoError(t, err)
	for _, d := range []fence.Dialect{fence.PostgreSQL, fence.MySQL, fence.SQLite} {
		s := d.Statements("leadership_fence")
		for _, text := range []string{s.Create, s.Raise, s.Check, s.Reset} {
			require.Contains(t, string(page), "\n"+text+";\n")
		}
	}
}

// The package imports the standard library alone.
func TestStandardLibraryAlone(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	require.NoError(t, err)
	require.Equal(t, "github.com/go-leadership/leadership/fence", strings.TrimSpace(string(out)))
}
