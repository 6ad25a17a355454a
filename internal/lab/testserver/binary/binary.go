// Package binary says where the servers that are built from source are kept:
// [github.com/go-leadership/leadership/internal/lab/testserver/build] puts them
// there, testserver runs them from there.
package binary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Binary is a server that is built from the source of a Go module.
type Binary struct {
	Name    string // of the nested module's directory below build, too
	Version string // as in that module's go.mod
	Package string // the command's import path
}

// Etcd is the etcd server.
var Etcd = Binary{Name: "etcd", Version: "v3.7.3", Package: "go.etcd.io/etcd/server/v3"}

// Consul is the Consul agent, server and client in one.
var Consul = Binary{Name: "consul", Version: "v1.19.2", Package: "github.com/hashicorp/consul"}

// Etcdctl is the client of etcd's command line.
var Etcdctl = Binary{Name: "etcdctl", Version: "v3.7.3", Package: "go.etcd.io/etcd/etcdctl/v3"}

func (b Binary) String() string { return b.Name + " " + b.Version }

// Path returns where the binary is or will be: below the user's cache
// directory, because it takes minutes to build and outlives a checkout.
func (b Binary) Path() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory to keep %s in: %w", b, err)
	}
	return filepath.Join(cache, "go-leadership", "testserver", b.Name+"-"+b.Version), nil
}

// Find returns the path of a binary that exists. If there is none, the error says how to get it.
func (b Binary) Find() (string, error) {
	path, err := b.Path()
	if err != nil {
		return "", err
	}
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s is not built: run `make setup STORE=%s`", b, b.Name)
	case err != nil:
		return "", err
	}
	return path, nil
}
