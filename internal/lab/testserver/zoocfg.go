package testserver

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	args := append([]string{
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dlog4j.configuration=file:" + filepath.Join(s.dir, "log4j.properties"),
		"-cp", strings.Join(classpath, ":"),
	}, s.args...)
	return exec.Command(s.java, append(args,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(s.dir, "zoo.cfg"))...)
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
