package all_test

import (
	"os/exec"
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
	for _, linked := range links(t, module, module+"/store", module+"/store/memory", module+"/store/file", module+"/status", module+"/internal/serve") {
		domain, _, _ := strings.Cut(linked, "/")
		if strings.Contains(domain, ".") {
			require.True(t, linked == module || strings.HasPrefix(linked, module+"/"), "%s is linked", linked)
		}
	}
}

// A program that imports the library links no client of Prometheus or OpenTelemetry, and its go.mod requires none for the
// library's sake: contrib/prom and contrib/otel are modules of their own. What the clients of the stores require is theirs.
func TestImportersDoNotPayForExporters(t *testing.T) {
	exporters := []string{"github.com/prometheus/", "go.opentelemetry.io/"}
	for _, linked := range links(t, module, module+"/store/all", module+"/status") {
		for _, exporter := range exporters {
			require.False(t, strings.HasPrefix(linked, exporter), "%s is linked", linked)
		}
	}
	graph := exec.Command("go", "mod", "graph")
	graph.Env = append(graph.Environ(), "GOWORK=off")
	output, err := graph.Output()
	require.NoError(t, err)
	own := 0
	for line := range strings.Lines(string(output)) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		if from != module {
			continue
		}
		own++
		for _, exporter := range exporters {
			require.False(t, strings.HasPrefix(to, exporter), "%s is required", to)
		}
	}
	require.Positive(t, own)
}

// All registers every store.
func TestAllLinksEveryClient(t *testing.T) {
	linked := links(t, module+"/store/all")
	for name, client := range clients {
		require.Contains(t, linked, module+"/store/"+name)
		if client != "" {
			require.Contains(t, linked, client)
		}
	}
}
