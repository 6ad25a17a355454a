package all_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/go-leadership/leadership"

// clients are what each store links; the last part of the store's package names it.
var clients = map[string]string{
	"zookeeper": "github.com/go-zookeeper/zk",
	"etcd":      "go.etcd.io/etcd/client/v3",
	"consul":    "github.com/hashicorp/consul/api",
	"memory":    "",
	"file":      "",
}

// links returns the packages that a program links which imports these.
func links(t *testing.T, packages ...string) []string {
	t.Helper()
	output, err := exec.Command("go", append([]string{"list", "-deps"}, packages...)...).Output()
	require.NoError(t, err)
	return strings.Fields(string(output))
}

// A program that imports the root package and one store links that store's client and no other.
func TestProgramLinksOneClient(t *testing.T) {
	t.Parallel()
	for name, own := range clients {
		t.Run(name, func(t *testing.T) {
			linked := links(t, module, module+"/store/"+name)
			for other, client := range clients {
				if client == "" {
					continue
				}
				if client == own {
					require.Contains(t, linked, client)
				} else {
					require.NotContains(t, linked, client, "the client of %s", other)
					require.NotContains(t, linked, module+"/store/"+other)
				}
			}
		})
	}
}

// The root package, the contract, and the stores in memory and in a directory link nothing but the standard library.
func TestCoreLinksTheStandardLibraryAlone(t *testing.T) {
	t.Parallel()
	for _, linked := range links(t, module, module+"/store", module+"/store/memory", module+"/store/file", module+"/status") {
		domain, _, _ := strings.Cut(linked, "/")
		if strings.Contains(domain, ".") {
			require.True(t, linked == module || strings.HasPrefix(linked, module+"/"), "%s is linked", linked)
		}
	}
}

// contribs are what modules of contrib alone need. The clients of the stores require some of them, so they are in the
// graph of modules; etcd's links gRPC.
var (
	contribs = []string{"github.com/prometheus/", "go.opentelemetry.io/", "google.golang.org/grpc", "sigs.k8s.io/"}
	foreign  = []string{"github.com/go-co-op/", "k8s.io/", "sigs.k8s.io/controller-runtime", "github.com/chromedp/", module + "/contrib/"}
)

// A program that imports the library links nothing that contrib alone needs, and its go.mod requires nothing of that
// for the library's sake.
func TestImportersDoNotPayForExporters(t *testing.T) {
	t.Parallel()
	unpaid := func(path string, among []string) {
		t.Helper()
		for _, other := range among {
			require.False(t, strings.HasPrefix(path, other), path)
		}
	}
	for _, linked := range links(t, module+"/store/zookeeper", module+"/store/consul", module+"/status", module+"/operate", module+"/fence") {
		unpaid(linked, slices.Concat(contribs, foreign))
	}
	for _, linked := range links(t, module+"/store/all") {
		if !strings.HasPrefix(linked, "google.golang.org/grpc") {
			unpaid(linked, slices.Concat(contribs, foreign))
		}
	}
	graph := exec.Command("go", "mod", "graph")
	graph.Env = append(graph.Environ(), "GOWORK=off")
	output, err := graph.Output()
	require.NoError(t, err)
	own := 0
	for line := range strings.Lines(string(output)) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		unpaid(to, foreign)
		if from != module {
			continue
		}
		own++
		if !strings.HasPrefix(to, "google.golang.org/grpc@") {
			unpaid(to, contribs)
		}
	}
	require.Positive(t, own)
}

// All registers every store.
func TestAllLinksEveryClient(t *testing.T) {
	t.Parallel()
	linked := links(t, module+"/store/all")
	for name, client := range clients {
		require.Contains(t, linked, module+"/store/"+name)
		if client != "" {
			require.Contains(t, linked, client)
		}
	}
}
