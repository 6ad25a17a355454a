// Package lifeline ends the sessions of a program as soon as the program is dead, which the kernel tells a second
// process, the lifeline, at once. Without a lifeline, the service waits for a TTL.
//
// # When a program is dead
//
// A program keeps the writing end of a pipe, and the lifeline has the reading end and a pidfd of the program. The
// program is dead when the pipe has ended and the pidfd says so. Each alone elects two leaders:
//
//   - The pipe ends too if a live program closes the descriptor by mistake.
//   - The pidfd tells too while a child that shares the program's memory or files, of vfork say, still runs its code.
//     That child has the pipe.
//
// The kernel ends the pipe when the last process that shares the program's files has stopped running user code, and the
// pidfd when the last thread has. Whatever else happens, a lifeline does nothing: then the service waits for the TTL,
// as it does without a lifeline.
//
// The pipe is not the socket that the two processes talk over. The socket ends with the lifeline; the pipe does not,
// and the next lifeline gets it. So a process that guards a leader's work, and holds a copy of the writing end, keeps
// the session whatever becomes of lifelines: see Client.File.
//
// # The protocol
//
// The program connects to a Unix socket, and sends a byte with two descriptors: its pidfd and the reading end of the
// pipe. Then frames follow, a length of four bytes and JSON, see frame. Each is answered. The service's credentials are
// sent over the socket and nowhere else: each side makes sure that the other runs as the same user, as root, or as a
// user that the operator has named.
package lifeline

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Self as a place means the lifeline that has started the program, or else one that the program starts: see Main.
const Self = "self"

// Service says how to reach the service that a session is of.
type Service struct {
	Scheme     string
	TTL        time.Duration // how long the service keeps a session without this package
	Servers    []string      // with ports
	User       string
	Password   string
	Secure     *Secure           // nil: no TLS
	Parameters map[string]string // what else the store's package needs
}

// Secure are the settings of TLS. The files are sent as they are, since a lifeline might see other files, or be allowed
// more than the program is.
type Secure struct {
	ServerName       string
	Roots, Cert, Key []byte // PEM; empty: the system's roots, and no certificate of the client
}

// Config returns the settings for package tls, or nil.
func (s *Secure) Config() (*tls.Config, error) {
	if s == nil {
		return nil, nil
	}
	config := &tls.Config{ServerName: s.ServerName, MinVersion: tls.VersionTLS12}
	if len(s.Roots) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(s.Roots) {
			return nil, errors.New("there is no certificate among the roots")
		}
	}
	if len(s.Cert) > 0 {
		pair, err := tls.X509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Line is what a store tells of its sessions. A Client is one.
type Line interface {
	Add(id string, handover []byte) // a session that has been opened
	Drop(id string)                 // one that has ended, or that nothing is known of
	File() (*os.File, error)        // as long as some process has it, no session is ended by a lifeline
	Close()
}

// Ender ends sessions of one service.
type Ender interface {
	// End ends a session, which is known by its id and what its store has handed over. It tries once, or until ctx
	// ends. It returns nil if the session has ended, also if it had before.
	End(ctx context.Context, id string, handover []byte) error
	Close() error
}

var (
	schemesMu sync.Mutex
	schemes   = map[string]func(Service) (Ender, error){} // guarded by schemesMu
)

// Register registers a store's package: how sessions of its services are ended. The package calls it from init.
func Register(scheme string, open func(Service) (Ender, error)) {
	schemesMu.Lock()
	defer schemesMu.Unlock()
	schemes[scheme] = open
}

// Knows reports whether sessions of a store can be ended, by the scheme of its URL, with or without TLS.
func Knows(scheme string) bool {
	schemesMu.Lock()
	defer schemesMu.Unlock()
	return schemes[strings.TrimSuffix(scheme, "+tls")] != nil
}

// ender returns an Ender for a service.
func ender(s Service) (Ender, error) {
	schemesMu.Lock()
	open := schemes[s.Scheme]
	schemesMu.Unlock()
	if open == nil {
		return nil, fmt.Errorf("the lifeline does not know %s: it is of another program or version", s.Scheme)
	}
	if s.TTL <= 0 || len(s.Servers) == 0 {
		return nil, errors.New("the service has no TTL or no servers")
	}
	return open(s)
}
