package file

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// parentRole leads, and starts a program that ends with the standard input which it shares.
var parentRole = role("parent", func(c Config) error {
	st, err := Open(c)
	if err != nil {
		return err
	}
	b, err := st.Campaign(context.Background(), "e", "parent")
	if err != nil {
		return err
	}
	if err := b.Wait(context.Background()); err != nil {
		return err
	}
	child := exec.Command("cat")
	child.Stdin = os.Stdin
	for range 20 { // they have the lowest descriptors of the program
		child.ExtraFiles = append(child.ExtraFiles, os.Stdin)
	}
	if err := child.Start(); err != nil {
		return err
	}
	if _, err := b.Acknowledge(context.Background(), "parent"); err != nil {
		return err
	}
	return child.Wait()
})

// orphan has a process lead whose program inherits the session, and kills it while a rival waits. end ends the program.
func orphan(t *testing.T, st *Store, c Config) (rival store.Ballot, end func()) {
	t.Helper()
	theirs, ours, err := os.Pipe()
	require.NoError(t, err)
	defer theirs.Close()
	end = sync.OnceFunc(func() { require.NoError(t, ours.Close()) })
	t.Cleanup(end)
	c.Inherit = true
	parent := start(t, parentRole, c, func(cmd *exec.Cmd) { cmd.Stdin = theirs })
	leads(t, st, "parent")
	rival, err = st.Campaign(soon(t), "e", "rival")
	require.NoError(t, err)
	parent.kill()
	return rival, end
}

// TestInherit: after the death of a process whose program inherits the session, a rival leads once the program has
// ended, and does not wait for the TTL.
func TestInherit(t *testing.T) {
	c := Config{Directory: t.TempDir() + "/store", TTL: time.Minute}.withDefaults()
	st := openWith(t, c, kernel{})
	rival, end := orphan(t, st, c)
	list, err := st.Ballots(soon(t), "e")
	require.NoError(t, err)
	require.Len(t, list, 2, "the session has ended before the program")
	end()
	require.NoError(t, rival.Wait(soon(t)))
}

// TestInheritIsBounded: a program that does not end delays a rival until the TTL has passed.
func TestInheritIsBounded(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	st := openWith(t, c, kernel{})
	rival, _ := orphan(t, st, c)
	require.NoError(t, rival.Wait(soon(t)))
}
