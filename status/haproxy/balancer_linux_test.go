package haproxy

import (
	"cmp"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/stretchr/testify/require"
)

// page shows the configuration.
const page = "../../docs/haproxy.md"

// balancer is an HAProxy with the configuration of the page, and with changes.
type balancer struct {
	name    string
	changes []string // of the configuration: old and new texts
	late    *late    // is between HAProxy's checks and the first process; nil: nothing
	leaks   bool     // it ought to send requests to a process that leads no more
	check   check    // what a check of it is like; zero: as on the page

	*client
}

// shown returns the configuration of the page.
func shown(t testing.TB) string {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	config := regexp.MustCompile("(?s)```haproxy\n(.*?)```").FindStringSubmatch(string(text))
	require.NotNil(t, config, "the page shows no configuration")
	return config[1]
}

// TestMargin: the margin of the page is the sum that the page explains.
func TestMargin(t *testing.T) {
	config := shown(t)
	of := func(setting string) time.Duration {
		value := regexp.MustCompile(setting + `[ =]+(\w+)`).FindStringSubmatch(config)
		require.NotNil(t, value, setting)
		d, err := time.ParseDuration(value[1])
		require.NoError(t, err)
		return d
	}
	inter, answer := of("inter"), of("timeout check")
	require.Equal(t, inter+min(inter, of("timeout connect"))+2*answer, of("margin"))
}

// config returns the configuration, as the page shows it but for the addresses and the changes.
func (b *balancer) config(t testing.TB, members []*member) string {
	config := shown(t)
	for i, m := range members {
		checks := m.Status
		if i == 0 && b.late != nil {
			checks = b.late.listen(t, m.Status)
		}
		_, port, err := net.SplitHostPort(checks)
		require.NoError(t, err)
		b.changes = append(b.changes, "server "+m.name+" 10.0.0."+string(rune('1'+i))+":8080", "server "+m.name+" "+m.App+" port "+port)
	}
	b.changes = append(b.changes, "bind :80\n", "bind fd@3\n", "?margin=", "?by="+b.name+"&margin=")
	for i := 0; i < len(b.changes); i += 2 {
		before := config
		config = strings.ReplaceAll(before, b.changes[i], b.changes[i+1])
		require.NotEqual(t, before, config, "the configuration has no %q", b.changes[i])
	}
	return config
}

// start starts HAProxy, and returns its address.
func (b *balancer) start(t testing.TB, members []*member) (address string) {
	t.Helper()
	whole.Need(t)
	program, err := exec.LookPath("haproxy")
	program = cmp.Or(program, "/usr/sbin/haproxy") // which is in the PATH of root only
	if err != nil {
		_, err = os.Stat(program)
		require.NoError(t, err, "haproxy is missing: scripts/setup haproxy installs it")
	}
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	require.NoError(t, os.WriteFile(config, []byte(b.config(t, members)), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	inherited, err := l.(*net.TCPListener).File() // so that no other process takes the port
	require.NoError(t, err)
	defer inherited.Close()
	cmd := exec.Command(program, "-db", "-f", config)
	cmd.ExtraFiles = []*os.File{inherited}
	start(t, cmd)
	return l.Addr().String()
}
