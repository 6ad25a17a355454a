package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-leadership/leadership/internal/lab/testserver/binary"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
	_ "github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
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

// docs/command.md has the flags, variables, exit codes and times of run.
func TestRunDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	require.NoError(t, err)
	text := string(page)
	for _, code := range []int{exitUsage, exitUnavailable, exitLost, exitDenied, exitNeverLed, exitFailed, 126, 127} {
		require.Contains(t, text, fmt.Sprintf("\n| %d | ", code))
		require.Contains(t, (&runCmd{}).Help(), fmt.Sprint(code, ": "))
	}
	for _, variable := range commandVariables {
		require.Contains(t, text, "`"+variable+"`")
	}
	for _, flag := range []string{
		"again", "again-limit", "linger", "log-level", "ready-exec", "ready-fd", "ready-http", "ready-timeout", "resign-timeout", "stop-timeout", "strict",
		"unguarded", "value", "wait", "wait-all",
	} {
		require.Regexp(t, "`(leadership run )?--"+flag+"[`=]", text)
	}
	rows := regexp.MustCompile(`(?m)^\| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$`).FindAllStringSubmatch(text, -1)
	shown := 0
	for _, row := range rows {
		ttl, err := time.ParseDuration(row[1])
		if err != nil {
			continue
		}
		shown++
		most := times(ttl, ttl/3).MaxStopTimeout()
		require.Equal(t, row[2], most.Round(time.Millisecond).String(), row[1])
		require.Equal(t, row[3], defaultStopTimeout(most).Round(time.Millisecond).String(), row[1])
		require.Equal(t, row[4], (most - defaultStopTimeout(most)).Round(time.Millisecond).String(), row[1])
	}
	require.Equal(t, 6, shown)
}

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

// The servers of compose.yaml have the versions of the tests and loopback ports only, and the URL of each opens.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("../../compose.yaml")
	require.NoError(t, err)
	var file struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Environment map[string]string
			Ports       []string
		}
	}
	in := yaml.NewDecoder(strings.NewReader(string(text)))
	in.KnownFields(true)
	require.NoError(t, in.Decode(&file))
	require.Len(t, file.Services, 4)
	require.Equal(t, "gcr.io/etcd-development/etcd:"+binary.Etcd.Version, file.Services["etcd"].Image)
	require.Equal(t, "hashicorp/consul:"+strings.TrimPrefix(binary.Consul.Version, "v"), file.Services["consul"].Image)
	for name, service := range file.Services {
		address := regexp.MustCompile(`\n  ` + name + `: # ([^\s,]+)`).FindStringSubmatch(string(text))
		require.Len(t, address, 2, name)
		u, err := store.ParseURL(address[1])
		require.NoError(t, err)
		require.Equal(t, name, u.Scheme)
		_, port, _ := strings.Cut(u.Hosts[0], ":")
		require.Equal(t, []string{u.Hosts[0] + ":" + port}, service.Ports)
		require.True(t, strings.HasPrefix(service.Ports[0], "127.0.0.1:"))
		st, err := store.Open(t.Context(), address[1], nil)
		require.NoError(t, err)
		require.NoError(t, st.Close())
	}
}
