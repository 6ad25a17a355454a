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
			return "", errors.New("ZooKeeper is not installed: apt-get install zookeeper (or run `make setup`)")
		}
	}
	java, err = exec.LookPath("java")
	if err != nil {
		return "", errors.New("java is not installed: apt-get install default-jre-headless (or run `make setup`)")
	}
	return java, nil
}

// command returns the command that runs the server in the foreground. The
// flags make for a quick start and a small process.
func (m *Member) command(log *os.File) *exec.Cmd {
	cmd := exec.Command(m.java,
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
		"-Dlog4j.configuration=file:"+m.file("log4j.properties"),
		"-cp", strings.Join(classpath, ":"),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", m.file("zoo.cfg"))
	cmd.Dir = m.dir
	cmd.Stdout, cmd.Stderr = log, log
	return cmd
}

func (m *Member) file(name string) string { return filepath.Join(m.dir, name) }

// Everything at INFO, but for a line per four-letter word: polling sends many.
const log4jProperties = `log4j.rootLogger=INFO, stdout
log4j.logger.org.apache.zookeeper.server.NIOServerCnxn=WARN
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d{HH:mm:ss.SSS} %-5p %c{1}: %m%n
`

// configure writes the member's files. The ports are those of all members.
func (m *Member) configure(cfg ZooKeeperConfig, ports []int) error {
	data := m.file("data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(m.file("zoo.cfg"), []byte(zooCfg(cfg, m.id, data, ports)), 0o644),
		os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(m.id)), 0o644),
		os.WriteFile(m.file("log4j.properties"), []byte(log4jProperties), 0o644),
	)
}

// portsPerMember counts the ports of a member: one for clients, one on which
// its followers reach it as a leader, one for elections.
const portsPerMember = 3

func zooCfg(cfg ZooKeeperConfig, id int, data string, ports []int) string {
	settings := map[string]string{
		"tickTime":               strconv.FormatInt(cfg.TickTime.Milliseconds(), 10),
		"initLimit":              "20",
		"syncLimit":              "5",
		"dataDir":                data,
		"clientPort":             strconv.Itoa(ports[portsPerMember*(id-1)]),
		"clientPortAddress":      "127.0.0.1",
		"maxClientCnxns":         "0",
		"admin.enableServer":     "false",
		"4lw.commands.whitelist": "*",
	}
	if cfg.Members > 1 {
		for i := range cfg.Members {
			p := ports[portsPerMember*i:]
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
