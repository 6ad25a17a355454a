package testserver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// errPortTaken: another process has a port that the server wants.
var errPortTaken = errors.New("port taken")

// failure returns why the latest start of the member cannot succeed any more, or nil as long as it can. It reads the
// log, because a server that cannot bind a port need not exit: ZooKeeper exits at once if the port is for clients, after
// ten seconds if the port is for elections, and never if the port is for followers.
func (m *Member) failure() error {
	m.mu.Lock()
	p, from := m.process, m.logFrom
	m.mu.Unlock()
	ended := p.ended() // before the log is read: the log of a process that has ended is complete
	log, err := os.ReadFile(m.logFile())
	if err != nil {
		return err
	}
	log = log[min(from, int64(len(log))):]
	switch {
	case bytes.Contains(log, []byte("ddress already in use")):
		return fmt.Errorf("testserver: member at %s: %w\n%s", m.addr, errPortTaken, startLines(log))
	case ended:
		return fmt.Errorf("testserver: member at %s ended while it started\n%s", m.addr, startLines(log))
	}
	return nil
}

// startLines returns the lines of a log that tell why a start has failed: its errors, or else whatever came last.
func startLines(log []byte) string {
	return cmp.Or(lastLines(log, reportLines, errorLine), lastLines(log, reportLines, anyLine))
}

const (
	reportLines   = 12  // of a service's logs are in the output of a test
	reportColumns = 300 // of each
)

// KeepLogs copies the logs of the members to a directory of their own, since Close removes them. The report says where
// they are, and has the last lines that tell of errors, a dozen at most.
func (s *service) KeepLogs() (report string) {
	dir, err := os.MkdirTemp("", "leadership-logs-"+filepath.Base(s.dir)+"-")
	for i, m := range s.members {
		if err == nil {
			err = copyFile(m.logFile(), filepath.Join(dir, fmt.Sprintf("member%d.log", i)))
		}
	}
	if err != nil {
		return fmt.Sprintf("the servers' logs are lost: %v", err)
	}
	return "the servers' logs are in " + dir + s.lastErrors()
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// lastErrors returns the last lines of the members' logs that tell of errors, each after a line break.
func (s *service) lastErrors() (lines string) {
	for i, m := range s.members {
		log, err := os.ReadFile(m.logFile())
		if err != nil {
			lines += fmt.Sprintf("\nlog of member %d: %v", i, err)
		} else if errs := lastLines(log, reportLines/len(s.members), errorLine); errs != "" {
			lines += fmt.Sprintf("\nlast errors of member %d at %s:\n%s", i, m.addr, errs)
		}
	}
	return lines
}

var (
	errorLine = regexp.MustCompile(`(?i)\b(error|fatal|panic)\b|Exception in thread|already in use|invalid config|unrecognized|not defined`)
	anyLine   = regexp.MustCompile(``)
)

// lastLines returns the last n lines of a log that match, shortened.
func lastLines(log []byte, n int, like *regexp.Regexp) string {
	var lines []string
	for line := range strings.Lines(string(log)) {
		if like.MatchString(line) {
			line = strings.TrimSuffix(line, "\n")
			lines = append(lines, line[:min(len(line), reportColumns)])
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
