package testserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

// ports is a set of free ports on loopback.
type ports struct {
	numbers []int
	claims  []net.Listener
}

const (
	firstPort = 10000
	// portAttempts bounds the search for one free port.
	portAttempts = 1000
)

// reserveFunc is reservePorts, or a test's replacement.
type reserveFunc func(n int) (*ports, error)

// reservePorts finds n free ports. No other process reserves the same ones
// until release, but nothing keeps a process that knows nothing of this
// package from taking one.
//
// The ports lie outside the range from which the kernel gives a port to a
// connecting socket. Inside it, a port could be lost to any connection while
// its server is stopped, and a client that tries to reach the stopped server
// over and over could be connected to itself.
func reservePorts(n int) (*ports, error) {
	p := new(ports)
	limit := ephemeralStart()
	for range n {
		if err := p.add(limit); err != nil {
			p.release()
			return nil, err
		}
	}
	return p, nil
}

func (p *ports) add(limit int) error {
	for range portAttempts {
		port := firstPort + rand.IntN(limit-firstPort)
		claim, err := claimPort(port)
		if err != nil {
			continue
		}
		probe, err := net.Listen("tcp", loopback(port))
		if err != nil {
			claim.Close()
			continue
		}
		probe.Close()
		p.numbers = append(p.numbers, port)
		p.claims = append(p.claims, claim)
		return nil
	}
	return errors.New("testserver: no free port on loopback")
}

func (p *ports) release() {
	for _, claim := range p.claims {
		claim.Close()
	}
	p.claims = nil
}

// claimPort takes a name that stands for the port. An abstract socket can be
// bound by one process only, vanishes with it, and belongs to the same network
// namespace as the port.
func claimPort(port int) (net.Listener, error) {
	return net.Listen("unix", fmt.Sprintf("@leadership-testserver-port-%d", port))
}

// ephemeralStart returns where the kernel's own range begins, or Linux's
// default if that is unknown or leaves too few ports below it.
func ephemeralStart() int {
	const usual, enough = 32768, 1000
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	var first int
	if _, err := fmt.Sscan(string(text), &first); err != nil || first < firstPort+enough {
		return usual
	}
	return first
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
