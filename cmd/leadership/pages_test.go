package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// The program takes each command line in code on the pages beside docs/command.md: its subcommand and flags exist.
func TestPagesCommandLines(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	code := regexp.MustCompile("(?m)`(leadership [a-z][^`]*)`|^(?:\\$ )?(leadership [a-z].*)$")
	lines := map[string]int{}
	for _, path := range append(pages, "../../README.md") {
		name := filepath.Base(path)
		if name == "command.md" { // see TestDocsCommandLines
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, found := range code.FindAllStringSubmatch(string(text), -1) {
			line := strings.Join(strings.Fields(found[1]+found[2]), " ")
			line, _, _ = strings.Cut(line, " # ")
			args := beforePipe(splitLine(line))[1:]
			if args[0] == "run" && strings.Contains(line, "=") && !slices.Contains(args, "--") { // flags alone
				args = append(args, "--", "true")
			}
			var g grammar
			parser, err := kong.New(&g)
			require.NoError(t, err)
			last, flag := strings.CutPrefix(args[len(args)-1], "--")
			switch {
			case len(args) == 1 || flag && !strings.Contains(last, "="): // the name of a subcommand, or of a flag
				require.Contains(t, known(parser), strings.Join(args, " "), "%s: %s", name, line)
			default:
				_, err = parser.Parse(args)
				require.NoError(t, err, "%s: %s", name, line)
			}
			lines[name]++
		}
	}
	for _, name := range []string{"operations.md", "serve.md", "lifeline.md", "README.md"} {
		require.NotZero(t, lines[name], name)
	}
}

// known are the names of subcommands, alone and with each of their flags.
func known(parser *kong.Kong) (names []string) {
	for _, command := range parser.Model.Leaves(true) {
		names = append(names, command.Name)
		for _, flag := range command.Flags {
			names = append(names, command.Name+" --"+flag.Name)
		}
	}
	return names
}
