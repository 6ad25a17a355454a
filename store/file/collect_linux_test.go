package file

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTicketsAreCollected: hundreds of ballots leave few files, and tokens grow.
func TestTicketsAreCollected(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	one, two := driverWith(t, c, kernel{}), driverWith(t, c, kernel{})
	a, b := &enterer{t: t, s: sessionOf(t, one)}, &enterer{t: t, s: sessionOf(t, two)}
	first, last := a.enter(), uint64(0)
	_, err := a.s.Acknowledge(soon(t), first, "value")
	require.NoError(t, err)
	for i := range 400 {
		by := []*enterer{a, b}[i%2]
		entry := by.enter()
		require.Greater(t, entry.Token, last)
		require.Equal(t, first.Key, entry.Place.Nearest, "the leader, which was first, stands")
		last = entry.Token
		by.remove(entry)
	}
	one.life.Wait()
	two.life.Wait()
	require.Less(t, len(files(t, c.Directory)), 150)
}

// TestTidySparesWhatIsBeingMade: it was made after the listing.
func TestTidySparesWhatIsBeingMade(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	other := driverWith(t, c, kernel{})
	sessionOf(t, other)
	other.life.Wait()
	fresh := ""
	driverWith(t, c, beforeCalls(func(op, dir string) {
		if op == "readdir" && strings.HasSuffix(dir, "/t") && fresh == "" {
			fresh = other.temporary()
			require.NoError(t, os.Mkdir(fresh, 0o777))
		}
	})).tidy()
	require.DirExists(t, fresh)
}

// TestLinksAreNotFollowed: a user who may write to the directory could put links there to files of others.
func TestLinksAreNotFollowed(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	victim := t.TempDir()
	require.NoError(t, os.WriteFile(victim+"/key", nil, 0o600))
	d := driverWith(t, c, kernel{})
	sessionOf(t, d)
	(&enterer{t: t, s: sessionOf(t, d)}).enter()
	require.NoError(t, os.Symlink(victim, c.Directory+"/t/0000000000000000-x"))
	require.NoError(t, os.Symlink(victim, d.dirOf("e").ballot("~x")))
	sessionOf(t, d)
	d.collect("e")
	d.life.Wait()
	require.FileExists(t, victim+"/key")
}
