package testserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// classpath names three jars as Debian's package zookeeper installs them. The
// first refers to everything else it needs; the others are the log's. Naming
// just these halves the time that a start takes compared with all of the
// directory.
var classpath = []string{
	"/usr/share/java/zookeeper.jar",
	"/usr/share/java/slf4j-log4j12.jar",
	"/usr/share/java/log4j-1.2.jar",
}

// findZooKeeper returns the path of java, once it knows that the server is there too.
func findZooKeeper() (java string, err error) {
	for _, jar := range classpath {
		if _, err := os.Stat(jar); err != nil {
			return "", errors.New("ZooKeeper is not installed: apt-get install zookeeper (or run `make setup STORE=zookeeper`)")
		}
	}
	java, err = exec.LookPath("java")
	if err != nil {
		return "", errors.New("java is not installed: apt-get install default-jre-headless (or run `make setup STORE=zookeeper`)")
	}
	return java, nil
}

// zooServer is one ZooKeeper server.
type zooServer struct {
	java string   // the program
	args []string // of it, in addition
	addr string   // for clients
	dir  string   // with its configuration
}

// command runs the server. The flags make for a quick start and a small process.
func (s *zooServer) command() *exec.Cmd {
	var sharing []string
	if path := classes(s); path != "" {
		sharing = []string{"-XX:SharedArchiveFile=" + path}
	}
	return exec.Command(s.java, s.arguments(sharing...)...)
}

// arguments returns the arguments of java, with more before the configured ones.
func (s *zooServer) arguments(more ...string) []string {
	return slices.Concat([]string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Dzookeeper.jmx.log4j.disable=true",
		"-Dlog4j.configuration=file:" + filepath.Join(s.dir, "log4j.properties"),
		"-cp", strings.Join(classpath, ":"),
	}, more, s.args, []string{
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(s.dir, "zoo.cfg"),
	})
}

var classesMu sync.Mutex // one server at a time makes the archive

// classes returns an archive of the server's classes, with which a start takes three quarters of the processor time; none if
// it can't be made. A server makes it that ends by itself, since its port is in use. The archive is kept in the user's cache
// directory. Another Java ignores it.
func classes(s *zooServer) string {
	classesMu.Lock()
	defer classesMu.Unlock()
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	jar, err := os.Stat(classpath[0])
	if err != nil {
		return ""
	}
	path := filepath.Join(cache, "go-leadership", "testserver", fmt.Sprintf("zookeeper-%x.jsa", jar.ModTime().Unix()))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	port, err := net.Listen("tcp", s.addr)
	if err != nil {
		return ""
	}
	defer port.Close()
	made := path + "." + rand.Text()
	defer os.Remove(made)
	_ = os.MkdirAll(filepath.Dir(path), 0o755)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	plain := zooServer{java: s.java, dir: s.dir} // an archive with other jars is of no use to the others
	_ = exec.CommandContext(ctx, s.java, plain.arguments("-XX:ArchiveClassesAtExit="+made)...).Run()
	if err := os.Rename(made, path); err != nil {
		return ""
	}
	return path
}

// Everything at INFO, but for a line per four-letter word: polling sends many.
const log4jProperties = `log4j.rootLogger=INFO, stdout
log4j.logger.org.apache.zookeeper.server.NIOServerCnxn=WARN
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{HH:mm:ss.SSS} %-5p %c{1}: %m%n
`

// writeZooKeeperFiles writes what the member with that id, counted from 1,
// needs. The ports are those of all members.
func writeZooKeeperFiles(m *Member, cfg ZooKeeperConfig, id int, ports []int) error {
	return errors.Join(
		os.WriteFile(m.file("zoo.cfg"), []byte(zooCfg(cfg, id, m.dataDir(), ports)), 0o644),
		os.WriteFile(filepath.Join(m.dataDir(), "myid"), []byte(strconv.Itoa(id)), 0o644),
		os.WriteFile(m.file("log4j.properties"), []byte(log4jProperties), 0o644),
	)
}

// zooPorts counts the ports of a member: one for clients, one on which its
// followers reach it as a leader, one for elections.
const zooPorts = 3

func zooCfg(cfg ZooKeeperConfig, id int, data string, ports []int) string {
	settings := map[string]string{
		"tickTime":               strconv.FormatInt(cfg.TickTime.Milliseconds(), 10),
		"initLimit":              "20",
		"syncLimit":              "5",
		"dataDir":                data,
		"clientPort":             strconv.Itoa(ports[zooPorts*(id-1)]),
		"clientPortAddress":      "127.0.0.1",
		"maxClientCnxns":         "0",
		"admin.enableServer":     "false",
		"4lw.commands.whitelist": "*",
	}
	if cfg.Members > 1 {
		for i := range cfg.Members {
			p := ports[zooPorts*i:]
			settings["server."+strconv.Itoa(i+1)] = fmt.Sprintf("127.0.0.1:%d:%d", p[1], p[2])
		}
	}
	maps.Copy(settings, cfg.Extra)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s=%s\n", name, settings[name])
	}
	return b.String()
}
