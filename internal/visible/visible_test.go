package visible_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/visible"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Values and messages can't steer the terminal. A value that was quoted differs from a value with quotes of its own.
func TestVisible(t *testing.T) {
	for value, want := range map[string]string{
		"host a:1": "host a:1", "ü 世": "ü 世", "": `""`, " a": `" a"`, "a\n": `"a\n"`, "\x1b[2J": `"\x1b[2J"`,
		"a\u202eb": `"a\u202eb"`, "\u009b31m": `"\u009b31m"`, "\xff": `"\xff"`, `"a"`: `"\"a\""`, `a"b`: `a"b`,
	} {
		require.Equal(t, want, visible.Value(value))
	}
	for text, want := range map[string]string{
		"op: failed\n\tsee \"x\"": "op: failed\n\tsee \"x\"", "\x1b]0;x\a\r": `\x1b]0;x\a\r`, "\u009b\u202e": `\u009b\u202e`, "a\xffb": `a\xffb`,
	} {
		require.Equal(t, want, visible.Text(text))
	}
}
