package testserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
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
		return fmt.Errorf("testserver: member at %s: %w\n%s", m.addr, errPortTaken, tail(log, 10))
	case ended:
		return fmt.Errorf("testserver: member at %s ended while it started\n%s", m.addr, tail(log, 30))
	}
	return nil
}

// tail returns the last n lines.
func tail(log []byte, n int) []byte {
	log = bytes.TrimRight(log, "\n")
	end := len(log)
	for range n {
		if end = bytes.LastIndexByte(log[:end], '\n'); end < 0 {
			return log
		}
	}
	return log[end+1:]
}
