package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// docs/command.md names each subcommand and each environment variable. The help of each subcommand lists its exit codes,
// unless it can't fail.
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

// The program accepts each command line of docs/command.md: the flags exist, and the times fit the URL that was exported
// last above it.
func TestDocsCommandLines(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	require.NoError(t, err)
	url := ""
	seen := map[string]bool{}
	for _, block := range regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		for line := range strings.Lines(block[1]) {
			if store := regexp.MustCompile(`LEADERSHIP_STORE='(.*?)'`).FindStringSubmatch(line); store != nil {
				url = store[1]
			}
			line = regexp.MustCompile(`^(\$ |[0-9* ]+ )`).ReplaceAllString(strings.TrimSpace(line), "") // of a prompt, or of cron
			line, _, _ = strings.Cut(line, " || exit")
			if !strings.HasPrefix(line, "leadership ") {
				continue
			}
			words := regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(strings.Replace(line, `"$TOKEN"`, "7", 1), -1)
			seen[words[1]] = true
			if words[1] == "run" {
				parseRun(t, line, url)
				continue
			}
			words = beforePipe(words)
			var g grammar
			parser, err := kong.New(&g)
			require.NoError(t, err)
			_, err = parser.Parse(words[1:])
			require.NoError(t, err, line)
		}
	}
	for _, name := range []string{"run", "watch", "leader", "ballots", "stepdown", "assert"} {
		require.True(t, seen[name], name)
	}
}

// beforePipe returns the words of the first command of a pipe.
func beforePipe(words []string) []string {
	if i := slices.Index(words, "|"); i >= 0 {
		return words[:i]
	}
	return words
}
