package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// workspace writes a repository of two modules, and makes it the working directory.
func workspace(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"go.work":                               "go 1.26\n\nuse (\n\t.\n\t./contrib/nested\n)\n",
		"go.mod":                                "module example.org/library\n\ngo 1.26\n",
		"store/a_test.go":                       "package store\n\nimport \"testing\"\n\nfunc TestPasses(t *testing.T) {}\n",
		"internal/lab/testserver/testserver.go": "package testserver\n",
		"servers/b_test.go": "package servers\n\nimport (\n\t\"testing\"\n\n\t_ \"example.org/library/internal/lab/testserver\"\n)\n\n" +
			"func TestOnAServer(t *testing.T) {}\n",
		"contrib/nested/go.mod": "module example.org/library/contrib/nested\n\ngo 1.26\n",
		"contrib/nested/store/c_test.go": "package store\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestFails(t *testing.T) {\n" +
			"\tif _, err := os.Stat(\"c_test.go\"); err != nil {\n\t\tt.Error(\"not in its folder\")\n\t}\n\tt.Error(\"as it should\")\n}\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(content), 0o644))
	}
}

func TestRun(t *testing.T) {
	workspace(t)
	var out bytes.Buffer
	require.EqualError(t, run(t.Context(), &out, true, nil), "1 of 2 packages failed")
	said := regexp.MustCompile(`[0-9.]+s`).ReplaceAllString(out.String(), "Xs")
	require.Regexp(t, `compiled [12] of 2 test binaries: contrib/nested/store\n`, said)
	require.Contains(t, said, "compiled 2 of 2 test binaries: ")
	require.Contains(t, said, "ok  \tstore\tXs (processor Xs)\n")
	require.Contains(t, said, "FAIL\tcontrib/nested/store\tXs (processor Xs)\n--- FAIL: TestFails")
	require.NotContains(t, said, "not in its folder")
	require.NotContains(t, said, "\tservers\t", "it depends on a server")
	log, err := os.ReadFile(filepath.Join(logs, "contrib_nested_store.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "as it should")

	out.Reset()
	require.NoError(t, run(t.Context(), &out, true, []string{"./store/"}))
	require.Contains(t, out.String(), "compiled 1 of 1 test binaries: store\n")

	require.EqualError(t, run(t.Context(), &out, true, []string{"store", "stor"}), `no package with tests in "stor"`)

	t.Setenv("GOWORK", "off") // of the caller's: the modules of go.work are tested all the same
	require.Error(t, run(t.Context(), &out, true, []string{"contrib"}))
	require.Contains(t, out.String(), "FAIL\tcontrib/nested/store")
}

func TestBatches(t *testing.T) {
	var packages []*testPackage
	for _, name := range strings.Fields("a b x/a contrib/recipes/b contrib/recipes/c") {
		p := &testPackage{name: name, path: "example.org/" + name, module: "library"}
		if strings.HasPrefix(name, "contrib") {
			p.module, p.plain = "recipes", true
		}
		packages = append(packages, p)
	}
	var got []string
	for _, batch := range batches(packages) {
		var names []string
		for _, p := range batch {
			names = append(names, p.name)
		}
		got = append(got, strings.Join(names, " "))
	}
	require.Equal(t, []string{"a b", "x/a", "contrib/recipes/b contrib/recipes/c"}, got)
}

// Each folder that a rule or the order names exists.
func TestNames(t *testing.T) {
	for _, r := range rules {
		require.DirExists(t, filepath.Join("../..", r.folder))
	}
	for _, name := range longest {
		require.DirExists(t, filepath.Join("../..", name))
	}
}
