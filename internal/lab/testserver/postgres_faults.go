package testserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Restart shuts the server down fast and starts it again on the same port. Clients lose their connections; nothing that
// was committed is lost.
func (p *Postgres) Restart(ctx context.Context) error {
	if err := p.Member(0).Stop(); err != nil {
		return err
	}
	return p.Member(0).Start(ctx)
}

// RestartImmediately ends the server as pg_ctl -m immediate does, so that it has to recover when it starts again, on the
// same port. All that was committed is there afterwards; unlogged tables are empty.
func (p *Postgres) RestartImmediately(ctx context.Context) error {
	if err := quit(p.Member(0)); err != nil {
		return err
	}
	return p.Member(0).Start(ctx)
}

// quit is pg_ctl stop -m immediate: unlike SIGKILL it leaves no shared memory behind.
func quit(m *Member) error {
	if process := m.current(); process != nil {
		return process.stop(syscall.SIGQUIT, stopTimeout)
	}
	return nil
}

// KillBackend ends one of the server's processes by SIGKILL, by the number that pg_backend_pid or pg_stat_activity
// shows. The server ends all connections, recovers, and serves again: for this KillBackend waits.
func (p *Postgres) KillBackend(ctx context.Context, pid int) error {
	process := p.Member(0).current()
	if process == nil {
		return errNotRunning
	}
	backend := func(c child) bool { return c.pid == pid }
	if !slices.ContainsFunc(process.children(), backend) {
		return fmt.Errorf("testserver: %d is no process of the server at %s", pid, p.Addrs()[0])
	}
	if err := killPID(pid); err != nil {
		return err
	}
	if err := poll(ctx, func(context.Context) (missing string, err error) {
		if slices.ContainsFunc(process.children(), backend) {
			return "the server has not noticed the end of its process", nil
		}
		return "", nil
	}); err != nil {
		return err
	}
	return p.Ready(ctx)
}

// FillDisk writes a file that leaves no byte of the disk free; see [PostgresConfig.DiskSize]. The server goes on until it
// needs room: a table that should grow is an error for the client alone, a further WAL segment ends the server.
func (p *Postgres) FillDisk() error {
	file, err := os.Create(p.filler())
	if err != nil {
		return err
	}
	_, err = io.Copy(file, zeroes{})
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, file.Close())
}

// FreeDisk removes the file that FillDisk wrote.
func (p *Postgres) FreeDisk() error { return os.Remove(p.filler()) }

func (p *Postgres) filler() string { return filepath.Join(p.data, "filler") }

// zeroes is as long as the disk has room.
type zeroes struct{}

func (zeroes) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
