package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/go-leadership/leadership/internal/visible"
	"github.com/stretchr/testify/require"
)

// JSON can't steer the terminal either.
func TestJSONIsVisible(t *testing.T) {
	value := "\x1b[2J <ü> \u009b \u202e \U000e0001 \u2028"
	var out bytes.Buffer
	require.NoError(t, printJSON(&out, visible.InJSON(value)))
	require.Equal(t, `{"value":"\u001b[2J <ü> \u009b \u202e \udb40\udc01 \u2028"}`+"\n", out.String())
	var back visible.JSON
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	require.Equal(t, value, back.Value)
}
