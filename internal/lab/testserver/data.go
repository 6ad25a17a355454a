package testserver

import (
	"errors"
	"fmt"
	"os"
)

// SaveData keeps a copy of the data that the member has on disk, in place of
// one kept earlier. The member must not run.
func (m *Member) SaveData() error {
	return m.copyData(m.dataDir(), m.file("saved"))
}

// RestoreData replaces the member's data by the copy that SaveData kept, as an operator does who restores a server from
// a backup. The member must not run. The copy can be restored again.
func (m *Member) RestoreData() error {
	if _, err := os.Stat(m.file("saved")); err != nil {
		return fmt.Errorf("testserver: SaveData first: %w", err)
	}
	return m.copyData(m.file("saved"), m.dataDir())
}

// RemoveData removes the data that the member has on disk. The member must not run.
func (m *Member) RemoveData() error { return m.copyData("", m.dataDir()) }

// copyData replaces what is at to. From is empty if nothing takes its place.
func (m *Member) copyData(from, to string) error {
	m.mu.Lock() // it is not started meanwhile
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return errClosed
	case m.runs():
		return fmt.Errorf("testserver: member at %s runs: stop it before its data is copied", m.addr)
	}
	if to == m.dataDir() && m.discard != nil {
		if err := m.discard(); err != nil {
			return err
		}
	}
	if from == "" {
		return os.RemoveAll(to)
	}
	return errors.Join(os.RemoveAll(to), copyTree(from, to))
}
