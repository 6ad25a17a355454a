package leadership_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Printing a candidate, follower or term shows no fields and is free of data races, with any verb.
func TestFormat(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c, f := w.candidate(st, "hUnter2", nil), w.follower(st, nil)
		term := w.campaign(c)
		f.Start()
		go c.Stop()
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			for _, x := range []any{c, f, term, &fakeStore{Store: st}} {
				require.NotContains(w, fmt.Sprintf(verb, x), "hUnter2", "%s of %T", verb, x)
			}
		}
		require.Equal(w, `candidate in election "database/primary" on memory://`, fmt.Sprint(c))
		require.Equal(w, `follower of election "database/primary" on memory://`, fmt.Sprint(f))
		require.Equal(w, fmt.Sprintf(`term %d in election "database/primary" on memory://`, term.Token()), fmt.Sprint(term))
		other := w.candidate(&fakeStore{Store: st}, "hUnter2", nil)
		require.True(w, strings.HasSuffix(other.String(), "on *leadership_test.fakeStore"), "a store without a name: %s", other)
	})
}
