package file

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// during calls a function after a listing, before its caller has it.
type during struct {
	ops
	listed func(dir string)
}

func (o during) list(dir string) ([]string, error) {
	names, err := o.ops.list(dir)
	o.listed(dir)
	return names, err
}

// TestFloorIsMadeWhileTheyAreListed: a listing that does not show it does not mean that the floors were removed. Then
// numbers that others are taking would be void.
func TestFloorIsMadeWhileTheyAreListed(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	var d *driver
	raise := false
	d = driverWith(t, c, during{kernel{}, func(dir string) {
		if dir == c.Directory+"/f" && raise {
			raise = false
			f, err := d.numbers.floors()
			require.NoError(t, err)
			_, err = d.numbers.raise(f, f.end)
			require.NoError(t, err)
		}
	}})
	s := &enterer{t: t, s: sessionOf(t, d)}
	s.enter()
	before, err := d.numbers.floors()
	require.NoError(t, err)
	raise = true
	_, err = d.numbers.floors()
	require.NoError(t, err)
	require.False(t, raise)
	now, err := d.numbers.floors()
	require.NoError(t, err)
	require.Equal(t, before.end, now.floor, "no other floor was made")
}

// TestVoidNumberRaisesNoFloor: the number of a new election is void, since another election has begun meanwhile. The next
// try makes no number of others void, so that many processes can begin elections at once.
func TestVoidNumberRaisesNoFloor(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	other := sessionOf(t, d)
	var floor uint64
	slow := &enterer{t: t, s: sessionOf(t, driverWith(t, c, hooked{ops: kernel{}, beforeSymlink: func(_, path string) {
		if floor > 0 || !strings.Contains(path, "/_q/") {
			return
		}
		_, err := other.Enter(soon(t), "another", engine.Nonce{Name: unique(), Turn: 1}, "value")
		require.NoError(t, err)
		f, err := d.numbers.floors()
		require.NoError(t, err)
		floor = f.floor
	}}))}
	entry := slow.enter()
	require.Greater(t, entry.Token, floor)
	f, err := d.numbers.floors()
	require.NoError(t, err)
	require.Equal(t, floor, f.floor)
	tickets, err := d.dirOf("e").tickets(d)
	require.NoError(t, err)
	require.Equal(t, []uint64{entry.Token}, tickets, "the void one is removed")
	names, err := d.ops.list(d.dirOf("e").ballots())
	require.NoError(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return name[0] == '~' })
	require.Len(t, names, 1, "the ballot of the void one is withdrawn: others might have seen it, and would wait for it")
}
