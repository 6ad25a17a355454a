package main

import (
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// docs/command.md names each subcommand, and each variable of the environment. The help of each subcommand but those
// that can't fail lists exit codes.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/command.md")
	require.NoError(t, err)
	parser, err := kong.New(&grammar{})
	require.NoError(t, err)
	for _, command := range parser.Model.Leaves(true) {
		require.Regexp(t, "leadership "+command.Name+`\b|`+"`"+command.Name+"`", string(text))
		if command.Name != "version" && command.Name != "completion" {
			require.Contains(t, command.Detail, "Exit codes: ", command.Name)
		}
		for _, flag := range command.Flags {
			require.False(t, flag.Help == "" && !flag.Hidden, "--%s of %s has no help", flag.Name, command.Name)
			for _, variable := range flag.Envs {
				require.Contains(t, string(text), "`"+variable+"`", command.Name)
			}
		}
	}
	for line := range strings.Lines(exitCodes) {
		if code, _, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			require.Contains(t, string(text), "\n| "+code+" | ")
		}
	}
}
