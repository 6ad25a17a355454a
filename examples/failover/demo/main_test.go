package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The demo runs within a minute of a clone: it links no client of a service, so the go command downloads nothing but this
// module.
func TestLinksNoClient(t *testing.T) {
	const module = "github.com/go-leadership/leadership"
	output, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").CombinedOutput()
	require.NoError(t, err, "%s", output)
	packages := strings.Fields(string(output))
	require.Contains(t, packages, module+"/store/file")
	for _, p := range packages {
		require.True(t, p == module || strings.HasPrefix(p, module+"/"), p)
		require.NotContains(t, []string{"consul", "etcd", "zookeeper", "all"}, strings.TrimPrefix(p, module+"/store/"))
	}
}
