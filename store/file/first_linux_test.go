package file

import (
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestFirst: the entry that is first in line, with its session and nonce.
func TestFirst(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	var misses string
	d := driverWith(t, c, stale{kernel{}, &misses})
	first := func() engine.State {
		t.Helper()
		state, err := d.First(soon(t), "e")
		require.NoError(t, err)
		return state
	}
	require.Zero(t, first(), "there is no directory")
	one, two := sessionOf(t, d), sessionOf(t, driverWith(t, c, kernel{}))
	enter := func(s engine.Session, nonce string) engine.Entry {
		t.Helper()
		e, err := s.Enter(soon(t), "e", engine.Nonce{Name: nonce, Turn: uint64(len(nonce))}, "value")
		require.NoError(t, err)
		return e
	}
	a, b := enter(one, "a"), enter(two, "b")
	c2 := enter(one, "aa")
	require.False(t, b.Place.More, "there is none ahead but the nearest")
	require.True(t, c2.Place.More)
	require.Equal(t, engine.State{Token: a.Token, Session: one.ID(), Nonce: "a"}, first())
	d.life.Wait()
	misses = numberIn(d.dirOf("e").queue(), a.Token)
	require.Equal(t, a.Token, first().Token, "a listing has missed it")
	require.NoError(t, one.Remove(soon(t), engine.Removal{Entry: a}))
	require.Equal(t, engine.State{Token: b.Token, Session: two.ID(), Nonce: "b"}, first())
	require.NoError(t, two.End(soon(t), nil))
	require.Equal(t, engine.State{Token: c2.Token, Session: one.ID(), Nonce: "aa"}, first())
	require.NoError(t, one.End(soon(t), nil))
	require.Zero(t, first())
}
