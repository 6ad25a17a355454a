package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/internal/metrics"
	"github.com/stretchr/testify/require"
)

// pages returns the documentation pages, by their path below the root.
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

// Each name of this module on a page exists, such as `store.Lease`, `engine.Session.Acknowledge` or `Term.Acknowledge`.
func TestNamesExist(t *testing.T) {
	packages, members := declared(t)
	code := regexp.MustCompile("`(\\w+)\\.([A-Z]\\w*(?:\\.[A-Z]\\w*)?)(?:\\(.*?\\))?`")
	named := 0
	for path, text := range pages(t) {
		for _, m := range code.FindAllStringSubmatch(text, -1) {
			within, name := m[1], m[2]
			if names, ok := packages[within]; ok {
				require.True(t, names[name], "%s names %s.%s", path, within, name)
				named++
			} else if types, ok := members[within]; ok {
				require.True(t, types[name], "%s names %s.%s", path, within, name)
				named++
			}
		}
	}
	require.Greater(t, named, 50)
}

// Each Go file and page that a page names by its path exists.
func TestNamedFilesExist(t *testing.T) {
	code := regexp.MustCompile("`([\\w./-]+/[\\w.-]+\\.(?:go|md|txt))`")
	for path, text := range pages(t) {
		for _, m := range code.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join("..", m[1]))
			require.NoError(t, err, "%s names %s", path, m[1])
		}
	}
}

// The code on the page of the guarantees is that of the examples, which the tests of the stores run.
func TestFencesAreThoseOfTheExamples(t *testing.T) {
	paths, err := filepath.Glob("../store/*/example*_test.go")
	require.NoError(t, err)
	examples := ""
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		examples += string(text)
	}
	fences, err := filepath.Glob("../store/*/fence.go") // a store that can fence has one
	require.NoError(t, err)
	list := regexp.MustCompile("(?s)```go\n(.*?)\n```").FindAllStringSubmatch(pages(t)["guarantees.md"], -1)
	require.Len(t, list, 1)
	snippets := strings.Split(list[0][1], "\n\n")
	require.Len(t, snippets, len(fences))
	for _, snippet := range snippets {
		require.Contains(t, examples, "\t"+strings.ReplaceAll(snippet, "\n", "\n\t")+"\n\treturn err\n}\n")
	}
}

// declared returns the exported names of each public package ("Lease", "Lease.Holds"), and the members of each type.
func declared(t *testing.T) (packages, members map[string]map[string]bool) {
	packages, members = map[string]map[string]bool{}, map[string]map[string]bool{}
	add := func(all map[string]map[string]bool, within, name string) {
		if all[within] == nil {
			all[within] = map[string]bool{}
		}
		all[within][name] = true
	}
	for _, pattern := range []string{"../*.go", "../fence/*.go", "../store/*.go", "../store/*/*.go", "../store/engine/drivertest/*.go", "../conformance/*.go"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			member := func(of, name string) {
				add(members, of, name)
				add(packages, file.Name.Name, of+"."+name)
			}
			for _, d := range file.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv == nil {
						add(packages, file.Name.Name, d.Name.Name)
					} else {
						member(typeName(d.Recv.List[0].Type), d.Name.Name)
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						switch spec := spec.(type) {
						case *ast.ValueSpec:
							for _, name := range spec.Names {
								add(packages, file.Name.Name, name.Name)
							}
						case *ast.TypeSpec:
							add(packages, file.Name.Name, spec.Name.Name)
							for _, name := range parts(spec.Type) {
								member(spec.Name.Name, name)
							}
						}
					}
				}
			}
		}
	}
	require.True(t, packages["engine"]["Session.Acknowledge"] && members["Term"]["Acknowledge"])
	return packages, members
}

// typeName returns the name of a receiver's type, which might be generic.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return e.(*ast.Ident).Name
}

// parts returns the fields of a struct, or the methods of an interface.
func parts(e ast.Expr) (names []string) {
	var list *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
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

// Each series that a page names exists, and the pages name each series and each alert.
func TestNamedSeriesExist(t *testing.T) {
	missing := map[string]bool{}
	for _, f := range append(metrics.Families(), metrics.QueueFamilies()...) {
		missing[f.Name] = true
	}
	series := regexp.MustCompile("`(leadership_\\w+)")
	all := ""
	for path, text := range pages(t) {
		all += text
		for _, m := range series.FindAllStringSubmatch(text, -1) {
			_, exists := missing[m[1]]
			require.True(t, exists, "%s names %s", path, m[1])
			missing[m[1]] = false
		}
	}
	for name, is := range missing {
		require.False(t, is, "no page names %s", name)
	}
	rules, err := os.ReadFile("../contrib/prom/alerts.yaml")
	require.NoError(t, err)
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1)
	require.NotEmpty(t, alerts)
	for _, alert := range alerts {
		require.True(t, strings.Contains(all, "**"+alert[1]+"**"), "no page says what to do about %s", alert[1])
	}
}

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
	require.Equal(t, 10, shown)
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
