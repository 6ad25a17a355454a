// Package release tests what users of the next release download: the modules, from a proxy made of files.
package release

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	root    = "../.."
	library = "github.com/go-leadership/leadership"
	command = library + "/cmd/leadership"
)

// others are the modules that require the library, by their directories.
var others = []string{"cmd/leadership", "contrib/grpcresolver", "contrib/otel", "contrib/prom", "store/postgres"}

// TestRelease: the command can be installed, and a program can import the library, at the version that the command's go.mod
// requires of the library. An importer of the library gets nothing that the command or the exporters alone need.
func TestRelease(t *testing.T) {
	u := newUser(t)

	u.run(u.home, "go", "install", command+"@"+u.version)
	if said := u.run(u.home, filepath.Join(u.home, "bin", "leadership"), "version"); !strings.HasPrefix(said, "leadership "+u.version+" ") {
		t.Errorf("leadership version prints %q, not %s", said, u.version)
	}

	dir := filepath.Join(u.home, "importer")
	write(t, filepath.Join(dir, "main.go"), []byte(importer))
	u.run(dir, "go", "mod", "init", "example.org/importer")
	u.run(dir, "go", "mod", "edit", "-require="+library+"@"+u.version)
	u.run(dir, "go", "mod", "tidy")
	u.run(dir, "go", "build")
	if said := u.run(dir, filepath.Join(dir, "importer")); said != "true\n" {
		t.Errorf("the importer prints %q", said)
	}
	required := map[string]bool{}
	for _, r := range parse(t, filepath.Join(dir, "go.mod")).Require {
		required[r.Mod.Path] = true
	}
	for _, path := range []string{library, "go.etcd.io/etcd/client/v3", "github.com/hashicorp/consul/api", "github.com/go-zookeeper/zk"} {
		if !required[path] {
			t.Errorf("the importer does not require %s", path)
		}
	}
	all := u.run(dir, "go", "list", "-m", "-f", "{{.Path}}", "all")
	for _, path := range []string{command, library + "/contrib/prom", library + "/contrib/otel", library + "/contrib/grpcresolver", library + "/store/postgres", "github.com/jackc/pgx/v5", "github.com/alecthomas/kong"} {
		if strings.Contains(all, path+"\n") {
			t.Errorf("the importer gets %s", path)
		}
	}
}

// TestReleaseOfExporters: a program can import the modules of contrib, and the store for PostgreSQL.
func TestReleaseOfExporters(t *testing.T) {
	u := newUser(t)
	dir := filepath.Join(u.home, "importer")
	write(t, filepath.Join(dir, "main.go"), []byte(exporter))
	u.run(dir, "go", "mod", "init", "example.org/importer")
	u.run(dir, "go", "get", library+"/contrib/otel@"+u.version, library+"/contrib/prom@"+u.version, library+"/contrib/grpcresolver@"+u.version,
		library+"/store/postgres@"+u.version)
	u.run(dir, "go", "mod", "tidy")
	u.run(dir, "go", "build")
	if said := u.run(dir, filepath.Join(dir, "importer")); said != "true true leadership\n" {
		t.Errorf("the importer prints %q", said)
	}
}

// exporter is a program that imports the modules of contrib.
const exporter = `package main

import (
	"fmt"

	"github.com/go-leadership/leadership/contrib/grpcresolver"
	"github.com/go-leadership/leadership/contrib/otel"
	"github.com/go-leadership/leadership/contrib/prom"
	_ "github.com/go-leadership/leadership/store/postgres"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/metric/noop"
)

func main() {
	_, err := otel.New(noop.NewMeterProvider())
	fmt.Println(err == nil, prometheus.Register(prom.New()) == nil, grpcresolver.Scheme)
}
`

// importer is a program that imports the library and every store.
const importer = `package main

import (
	"context"
	"fmt"
	"log"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
)

func main() {
	st, err := store.Open(context.Background(), "memory://release?ttl=10s", nil)
	if err != nil {
		log.Fatal(err)
	}
	c, err := leadership.NewCandidate(st, "election", "value", nil)
	if err != nil {
		log.Fatal(err)
	}
	term, err := c.Campaign(context.Background())
	fmt.Println(term != nil && err == nil && c.IsLeader())
}
`

// user is someone with an empty module cache. The proxy has this clone's modules as the version to be released.
type user struct {
	*testing.T
	home, version string
	env           []string
}

func newUser(t *testing.T) user {
	u := user{T: t, home: t.TempDir()}
	for _, dir := range others {
		for _, r := range parse(t, filepath.Join(root, dir, "go.mod")).Require {
			if r.Mod.Path != library {
				continue
			}
			if u.version != "" && u.version != r.Mod.Version {
				t.Errorf("%s requires %s of the library, and others %s", dir, r.Mod.Version, u.version)
			}
			u.version = r.Mod.Version
		}
	}
	proxy := filepath.Join(u.home, "proxy")
	publish(t, proxy, module.Version{Path: library, Version: u.version}, root)
	for _, dir := range others {
		publish(t, proxy, module.Version{Path: library + "/" + dir, Version: u.version}, filepath.Join(root, dir))
	}

	// Other modules come from the module cache of this machine, or else from where they usually do.
	cached := filepath.Join(strings.TrimSpace(u.run(".", "go", "env", "GOMODCACHE")), "cache", "download")
	proxies := "file://" + proxy + ",file://" + cached + "," + strings.TrimSpace(u.run(".", "go", "env", "GOPROXY"))
	u.env = append(os.Environ(),
		"GOPROXY="+proxies, "GONOPROXY=none", "GONOSUMDB="+library, "GOWORK=off",
		"GOMODCACHE="+filepath.Join(u.home, "modules"), "GOBIN="+filepath.Join(u.home, "bin"),
		"GOFLAGS=-modcacherw -trimpath", // so that the directory can be removed, and compiled packages are found the next time
	)
	return u
}

// run runs a program in a directory, and returns what the program prints.
func (u user) run(dir, name string, args ...string) string {
	u.Helper()
	cmd := exec.CommandContext(u.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, u.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		u.Fatalf("%s: %v\n%s%s", cmd, err, &stdout, &stderr)
	}
	return stdout.String()
}

// publish puts the module of a directory into a proxy, in the layout of https://go.dev/ref/mod#goproxy-protocol.
func publish(t *testing.T, proxy string, m module.Version, dir string) {
	t.Helper()
	var files bytes.Buffer
	if err := zip.CreateFromDir(&files, m, dir); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if replaced := parse(t, filepath.Join(dir, "go.mod")).Replace; len(replaced) > 0 {
		t.Errorf("%s has a replace directive, so that go install refuses the module", dir)
	}
	base := filepath.Join(proxy, filepath.FromSlash(m.Path), "@v")
	write(t, filepath.Join(base, "list"), []byte(m.Version+"\n"))
	write(t, filepath.Join(base, m.Version+".info"), fmt.Appendf(nil, `{"Version":%q}`, m.Version))
	write(t, filepath.Join(base, m.Version+".mod"), mod)
	write(t, filepath.Join(base, m.Version+".zip"), files.Bytes())
}

func parse(t *testing.T, path string) *modfile.File {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(path, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// write writes a file and makes its directory.
func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
}
