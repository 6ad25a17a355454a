package postgres

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// What the engine is told of each function's answer, and under which name an election is in the database.
func TestAnswers(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second, Prefix: "app"}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		f.set(func() {
			f.answer["enter"] = one("stands", int64(5), int64(4), true, nil, nil, nil)
			f.answer["ahead"] = one(true, int64(4), true)
			f.answer["queue"] = one(
				[]any{int64(4), "dead", "n4", []byte("first"), true, int64(7), int64(3000)},
				[]any{int64(5), "s", "n5", []byte("second"), true, int64(7), int64(3000)})
			f.answer["elections"] = one([]any{"app/x"}, []any{"app/app/y"})
		})
		ahead := engine.Place{Nearest: "4", More: true}
		e, err := s.Enter(t.Context(), "x", engine.Nonce{Name: "n5", Slot: 2, Turn: 3}, "second")
		require.NoError(t, err)
		require.Equal(t, engine.Entry{Key: "5", Token: 5, Place: ahead}, e)
		require.Equal(t, []string{s.ID(), "app/x", "n5", "2", "3", `\x7365636f6e64`}, f.args("enter"))
		e.Election = "x"
		place, err := d.Ahead(t.Context(), e)
		require.NoError(t, err)
		require.Equal(t, ahead, place)
		require.Equal(t, []string{"app/x", "5"}, f.args("ahead"))
		f.set(func() { f.answer["ahead"] = one(false, nil, false) })
		_, err = d.Ahead(t.Context(), e)
		require.ErrorIs(t, err, engine.ErrGone)

		first, err := d.First(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, engine.State{Token: 4, Session: "dead", Nonce: "n4", Resign: true}, first)
		require.Equal(t, []string{"app/x"}, f.args("queue"))
		d.note("dead", 7, 3_600_000, time.Now())
		d.marks["dead"].dead = true
		f.set(func() {
			f.answer["standing"] = one(
				[]any{int64(4), "dead", "n4", []byte("first"), true, int64(7), int64(3000), int64(9000)},
				[]any{int64(5), "s", "n5", []byte("second"), true, int64(7), int64(3000), int64(2000)},
				[]any{int64(6), "old", "n6", []byte("third"), false, int64(7), int64(3000), nil})
		})
		ballots, err := d.Ballots(t.Context(), "x")
		require.NoError(t, err)
		third := store.Standing{Value: "third", Token: 6, Silence: -time.Millisecond}
		require.Equal(t, []store.Standing{{Value: "second", Token: 5, Asked: true, Silence: 2 * time.Second}, third}, ballots)
		for _, code := range []string{"42883", "42501"} { // the schema, or its rights, are of an earlier release
			f.set(func() { f.fails["standing"] = code })
			ballots, err = d.Ballots(t.Context(), "x")
			require.NoError(t, err)
			require.Equal(t, []store.Standing{{Value: "second", Token: 5, Asked: true, Silence: -time.Millisecond}}, ballots, code)
		}

		names, err := d.Elections(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"x", "app/y"}, names)
		require.NoError(t, d.RequestResignation(t.Context(), "x", 5))
		require.Equal(t, []string{"app/x", "5"}, f.args("ask"))
		require.NoError(t, d.Clear(t.Context(), "x"))
		require.Equal(t, []string{"app/x", "app/"}, f.args("clear"))
		require.NoError(t, d.Clear(t.Context(), ""))
		require.Equal(t, []string{"", "app/"}, f.args("clear"))
		f.set(func() { f.answer["queue"] = one() })
		first, err = d.First(t.Context(), "x")
		require.NoError(t, err)
		require.Zero(t, first)
	})
}
