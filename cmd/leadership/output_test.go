package main

import (
	"bytes"
	"encoding/json"
	"github.com/go-leadership/leadership/internal/jsonvalue"
	"testing"

	"github.com/stretchr/testify/require"
)

// Values and messages can't steer the terminal. A value that was quoted differs from a value with quotes of its own.
func TestPrintable(t *testing.T) {
	for value, want := range map[string]string{
		"host a:1": "host a:1", "ü 世": "ü 世", "": `""`, " a": `" a"`, "a\n": `"a\n"`, "\x1b[2J": `"\x1b[2J"`,
		"a\u202eb": `"a\u202eb"`, "\u009b31m": `"\u009b31m"`, "\xff": `"\xff"`, `"a"`: `"\"a\""`, `a"b`: `a"b`,
	} {
		require.Equal(t, want, printable(value))
	}
	for text, want := range map[string]string{
		"op: failed\n\tsee \"x\"": "op: failed\n\tsee \"x\"", "\x1b]0;x\a\r": `\x1b]0;x\a\r`, "\u009b\u202e": `\u009b\u202e`, "a\xffb": `a\xffb`,
	} {
		require.Equal(t, want, visible(text))
	}
}

// JSON can't steer the terminal either.
func TestJSONIsVisible(t *testing.T) {
	value := "\x1b[2J <ü> \u009b \u202e \U000e0001 \u2028"
	var out bytes.Buffer
	require.NoError(t, printJSON(&out, jsonvalue.Of(value)))
	require.Equal(t, `{"value":"\u001b[2J <ü> \u009b \u202e \udb40\udc01 \u2028"}`+"\n", out.String())
	var back jsonvalue.Value
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	require.Equal(t, value, back.Value)
}
