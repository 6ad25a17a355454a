package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/testserver/binary"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
	_ "github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// The servers of compose.yaml have the versions of the tests and loopback ports only, and the URL of each opens.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("../../compose.yaml")
	require.NoError(t, err)
	var file struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Environment map[string]string
			Ports       []string
		}
	}
	in := yaml.NewDecoder(strings.NewReader(string(text)))
	in.KnownFields(true)
	require.NoError(t, in.Decode(&file))
	require.Len(t, file.Services, 4)
	require.Equal(t, "gcr.io/etcd-development/etcd:"+binary.Etcd.Version, file.Services["etcd"].Image)
	require.Equal(t, "hashicorp/consul:"+strings.TrimPrefix(binary.Consul.Version, "v"), file.Services["consul"].Image)
	for name, service := range file.Services {
		address := regexp.MustCompile(`\n  ` + name + `: # ([^\s,]+)`).FindStringSubmatch(string(text))
		require.Len(t, address, 2, name)
		u, err := store.ParseURL(address[1])
		require.NoError(t, err)
		require.Equal(t, name, u.Scheme)
		_, port, _ := strings.Cut(u.Hosts[0], ":")
		require.Equal(t, []string{u.Hosts[0] + ":" + port}, service.Ports)
		require.True(t, strings.HasPrefix(service.Ports[0], "127.0.0.1:"))
		st, err := store.Open(t.Context(), address[1], nil)
		require.NoError(t, err)
		require.NoError(t, st.Close())
	}
}
