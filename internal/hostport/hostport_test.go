package hostport_test

import (
	"net"
	"testing"

	"github.com/go-leadership/leadership/internal/hostport"
	"github.com/stretchr/testify/require"
)

func TestGoodAddresses(t *testing.T) {
	for address, withPort := range map[string]string{
		"h":                   "h:2181",
		"h:1":                 "h:1",
		"h:65535":             "h:65535",
		"10.0.0.1":            "10.0.0.1:2181",
		"zk-1.example.com":    "zk-1.example.com:2181",
		"under_score":         "under_score:2181",
		"bücher.example":      "bücher.example:2181",
		"[::1]":               "[::1]:2181",
		"[::1]:9":             "[::1]:9",
		"[fe80::1%eth0]:9":    "[fe80::1%eth0]:9",
		"[fe80::1%eth0]":      "[fe80::1%eth0]:2181",
		"[2001:db8::2:1]:443": "[2001:db8::2:1]:443",
	} {
		require.Empty(t, hostport.Refuse(address), address)
		require.Equal(t, withPort, hostport.WithPort(address, "2181"))
	}
}

func TestRefusedAddresses(t *testing.T) {
	for _, address := range []string{
		"", ":", ":1", "h:", "h:0", "h:-1", "h:+1", "h:65536", "h:99999", "h:abc", "h:1:2", "u:s3cr3t@h", "u:s3cr3t@h:1", "u@h",
		"zookeeper://h:2181", "zookeeper://h", "h/x", "h:1/x", "h?x", "h#x", "h1,h2", "h1:1,h2:2", " h", "h ", "h h", "h\t", "h\n",
		"h\x00", "h\xff", "h\u200b", "h\u00a0", "\u2028h", "::1", "[::1", "::1]", "[::1]x", "[::1]:", "[::1]:0", "[h]", "[10.0.0.1]",
		"[]", "[]:1", "fe80::1%eth0", `h"`, `h\`, "h%20",
	} {
		reason := hostport.Refuse(address)
		require.NotEmpty(t, reason, "%q", address)
		require.NotContains(t, reason, "s3cr3t")
	}
}

func TestLists(t *testing.T) {
	require.Empty(t, hostport.RefuseAny(nil))
	require.Empty(t, hostport.RefuseAny([]string{"h", "h:1"}))
	require.Equal(t, `host 2: it is not "host", "host:port" or "[IPv6]:port"`, hostport.RefuseAny([]string{"h", "h/x", "h:x"}))
	given := []string{"h", "h:1", "[::1]"}
	require.Equal(t, []string{"h:80", "h:1", "[::1]:80"}, hostport.WithPorts(given, "80"))
	require.Equal(t, "h", given[0], "the caller's list")
	require.Empty(t, hostport.WithPorts(nil, "80"))
}

// FuzzWithPort: what is not refused can be dialled with a port.
func FuzzWithPort(f *testing.F) {
	for _, address := range []string{"h", "h:1", "[::1]", "[::1]:1", "::1", "u:p@h", ""} {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if hostport.Refuse(address) != "" {
			return
		}
		host, port, err := net.SplitHostPort(hostport.WithPort(address, "2181"))
		require.NoError(t, err)
		require.NotEmpty(t, host)
		require.NotEmpty(t, port)
	})
}
