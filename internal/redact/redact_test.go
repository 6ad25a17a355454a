package redact_test

import (
	"fmt"
	"testing"

	"github.com/go-leadership/leadership/internal/redact"
	"github.com/stretchr/testify/require"
)

// thing has a field that must not be shown.
type thing struct{ Secret string }

func (t thing) Format(f fmt.State, verb rune) { redact.Format(f, verb, "a thing") }

type named struct{ secret string }

func (named) String() string { return "by name" }

func TestFormatShowsNoField(t *testing.T) {
	x := thing{"hUnter2"}
	for verb, want := range map[string]string{
		"%v": "a thing", "%+v": "a thing", "%s": "a thing", "%q": `"a thing"`, "%#v": `"a thing"`, "%10v": "   a thing",
		"%x": fmt.Sprintf("%x", "a thing"), "%d": "%!d(string=a thing)", "%t": "%!t(string=a thing)",
	} {
		require.Equal(t, want, fmt.Sprintf(verb, x), verb)
		require.Equal(t, want, fmt.Sprintf(verb, &x), verb)
	}
	require.Equal(t, "{a thing}", fmt.Sprint(struct{ T thing }{x}))
	require.Equal(t, "<nil>", fmt.Sprint((*thing)(nil)))
}

func TestName(t *testing.T) {
	require.Equal(t, "by name", redact.Name(named{"hUnter2"}))
	require.Equal(t, "redact_test.thing", redact.Name(thing{"hUnter2"}))
	require.Equal(t, "<nil>", redact.Name(nil))
}
