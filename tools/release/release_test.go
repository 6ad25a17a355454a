// Package release tests what users of the next release download: the modules, from a proxy made of files.
package release

import (
	"bytes"
	"flag"
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

// whole runs all of it. Without it the modules are unzipped beside the other modules that this machine has downloaded
// already. Of the command, contrib and the store for PostgreSQL only the imports are resolved, and the library alone is
// built.
var whole = flag.Bool("whole", false, "download all modules into an empty cache, and build and install all")

// others are the modules that require the library, by their directories.
var others = []string{"cmd/leadership", "contrib/grpcresolver", "contrib/otel", "contrib/prom", "store/postgres"}

// TestRelease: the command can be installed, and programs can import the library, the modules of contrib and the store for
// PostgreSQL, at the version that the command's go.mod requires of the library. All subtests have one folder with the
// modules, so that the library is compiled once.
func TestRelease(t *testing.T) {
	u := newUser(t)
	for name, test := range map[string]func(user){"command": user.installs, "library": user.imports, "others": user.importsOthers} {
		t.Run(name, func(t *testing.T) {
			u.T = t
			test(u)
		})
	}
}

func (u user) installs() {
	if *whole {
		u.run(u.home, "go", "install", command+"@"+u.version)
		if said := u.run(u.home, filepath.Join(u.home, "bin", "leadership"), "version"); !strings.HasPrefix(said, "leadership "+u.version+" ") {
			u.Errorf("leadership version prints %q, not %s", said, u.version)
		}
		return
	}
	dir := u.unzipped[command]
	u.replace(dir)
	u.run(dir, "go", "list", "-deps", "./...")
}

// imports checks that an importer of the library gets nothing that the command or the exporters alone need.
func (u user) imports() {
	dir := u.program(importer, library)
	u.run(dir, "go", "build")
	if said := u.run(dir, filepath.Join(dir, "importer")); said != "true\n" {
		u.Errorf("the importer prints %q", said)
	}
	required := map[string]bool{}
	for _, r := range parse(u.T, filepath.Join(dir, "go.mod")).Require {
		required[r.Mod.Path] = true
	}
	for _, path := range []string{library, "go.etcd.io/etcd/client/v3", "github.com/hashicorp/consul/api", "github.com/go-zookeeper/zk"} {
		if !required[path] {
			u.Errorf("the importer does not require %s", path)
		}
	}
	all := u.run(dir, "go", "list", "-m", "-f", "{{.Path}}", "all")
	for _, path := range []string{command, library + "/contrib/prom", library + "/contrib/otel", library + "/contrib/grpcresolver", library + "/store/postgres", "github.com/jackc/pgx/v5", "github.com/alecthomas/kong"} {
		if strings.Contains(all, path+"\n") {
			u.Errorf("the importer gets %s", path)
		}
	}
}

// importsOthers imports the modules of contrib, and the store for PostgreSQL.
func (u user) importsOthers() {
	dir := u.program(exporter, library, library+"/contrib/otel", library+"/contrib/prom", library+"/contrib/grpcresolver", library+"/store/postgres")
	if !*whole {
		u.run(dir, "go", "list", "-deps")
		return
	}
	u.run(dir, "go", "build")
	if said := u.run(dir, filepath.Join(dir, "importer")); said != "true true leadership\n" {
		u.Errorf("the importer prints %q", said)
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

// user has this clone's modules as the version to be released: with -whole from a proxy, and an empty module cache.
type user struct {
	*testing.T
	home, version string
	unzipped      map[string]string // the folder of each module, without -whole
	env           []string
}

func newUser(t *testing.T) user {
	u := user{T: t, home: t.TempDir(), unzipped: map[string]string{}}
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
	u.publish(proxy, library, root)
	for _, dir := range others {
		u.publish(proxy, library+"/"+dir, filepath.Join(root, dir))
	}
	u.env = append(os.Environ(), "GOWORK=off")
	if !*whole {
		u.env = append(u.env, "GOFLAGS=-mod=mod -race", "GONOSUMDB=*") // with the race detector, as make test compiles the other modules
		return u
	}

	// Other modules come from the module cache of this machine, or else from where they usually do.
	cached := filepath.Join(strings.TrimSpace(u.run(".", "go", "env", "GOMODCACHE")), "cache", "download")
	proxies := "file://" + proxy + ",file://" + cached + "," + strings.TrimSpace(u.run(".", "go", "env", "GOPROXY"))
	u.env = append(u.env,
		"GOPROXY="+proxies, "GONOPROXY=none", "GONOSUMDB="+library,
		"GOMODCACHE="+filepath.Join(u.home, "modules"), "GOBIN="+filepath.Join(u.home, "bin"),
		"GOFLAGS=-modcacherw -trimpath", // so that the directory can be removed, and compiled packages are found the next time
	)
	return u
}

// program writes a program in a module that requires some of the modules, and returns the folder.
func (u user) program(text string, modules ...string) (dir string) {
	u.Helper()
	dir = filepath.Join(u.TempDir(), "importer")
	write(u.T, filepath.Join(dir, "main.go"), []byte(text))
	u.run(dir, "go", "mod", "init", "example.org/importer")
	for _, m := range modules {
		u.run(dir, "go", "mod", "edit", "-require="+m+"@"+u.version)
	}
	u.replace(dir)
	u.run(dir, "go", "mod", "tidy")
	return dir
}

// replace makes the module in a folder use the modules that are unzipped.
func (u user) replace(dir string) {
	u.Helper()
	for path, replacement := range u.unzipped {
		u.run(dir, "go", "mod", "edit", "-replace="+path+"="+replacement)
	}
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

// publish puts the module of a directory into a proxy, in the layout of https://go.dev/ref/mod#goproxy-protocol, or
// unzips it again.
func (u user) publish(proxy, path, dir string) {
	u.Helper()
	if replaced := parse(u.T, filepath.Join(dir, "go.mod")).Replace; len(replaced) > 0 {
		u.Errorf("%s has a replace directive, so that go install refuses the module", dir)
	}
	m := module.Version{Path: path, Version: u.version}
	base := filepath.Join(proxy, filepath.FromSlash(m.Path), "@v")
	var files bytes.Buffer
	if err := zip.CreateFromDir(&files, m, dir); err != nil {
		u.Fatal(err)
	}
	archive := filepath.Join(base, m.Version+".zip")
	write(u.T, archive, files.Bytes())
	if !*whole {
		u.unzipped[path] = filepath.Join(u.home, "unzipped", filepath.FromSlash(path), "@"+m.Version)
		if err := zip.Unzip(u.unzipped[path], m, archive); err != nil {
			u.Fatal(err)
		}
		return
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		u.Fatal(err)
	}
	write(u.T, filepath.Join(base, "list"), []byte(m.Version+"\n"))
	write(u.T, filepath.Join(base, m.Version+".info"), fmt.Appendf(nil, `{"Version":%q}`, m.Version))
	write(u.T, filepath.Join(base, m.Version+".mod"), mod)
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
