package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Help is the text below the flags' in --help.
func (completionCmd) Help() string {
	return `Put into ~/.bashrc, ~/.zshrc behind compinit, or ~/.config/fish/config.fish:

    source <(leadership completion bash)
    source <(leadership completion zsh)
    leadership completion fish | source`
}

// The scripts ask this program for the words that can come next.
var completions = map[string]string{
	"bash": `_leadership() {
	local IFS=$'\n' cur=${COMP_WORDS[COMP_CWORD]}
	COMPREPLY=($(compgen -W "$(leadership __complete -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null | cut -f 1)" -- "$cur"))
	[ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default
}
complete -F _leadership leadership
`,
	"zsh": `_leadership() {
	[[ $PREFIX == --*=* ]] && compset -P '--*=' && { _files; return }
	local -a items
	local name help
	leadership __complete -- "${(@)words[2,CURRENT-1]}" 2>/dev/null | while IFS=$'\t' read -r name help; do
		items+=("${name//:/\\:}:$help")
	done
	_describe leadership items || _files
}
compdef _leadership leadership
`,
	"fish": `function __leadership_offers
	set -l word (commandline -ct)
	set -g __leadership_items (leadership __complete -- (commandline -opc)[2..] 2>/dev/null | string match -- "$word*")
	set -q __leadership_items[1]
end
complete -c leadership -f -n __leadership_offers -a '(string join -- \n $__leadership_items)'
`,
}

// Run implements the subcommand.
func (c *completionCmd) Run(a *app) error {
	_, err := fmt.Fprint(a.out, completions[c.Shell])
	return err
}

// completeCmd prints the words that can come next on a command line, one a line: the word, a tab, and what it means.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run implements the subcommand.
func (c *completeCmd) Run(a *app, k *kong.Kong) error {
	var b strings.Builder
	for _, item := range next(k.Model.Node, c.Words) {
		fmt.Fprintf(&b, "%s\t%s\n", item[0], item[1])
	}
	_, err := fmt.Fprint(a.out, b.String())
	return err
}

// next returns the words that can come next, and what each means. It returns none if the last word is a flag that needs
// a value, or if the command line of another program has begun.
func next(node *kong.Node, words []string) (items [][2]string) {
	flags := slices.Clone(node.Flags)
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "--" && node.Type == kong.CommandNode {
			return nil
		}
		if strings.HasPrefix(word, "-") {
			needs := slices.ContainsFunc(flags, func(f *kong.Flag) bool { return word == "--"+f.Name && !f.IsBool() })
			if i++; needs && i == len(words) {
				return nil
			} else if !needs {
				i--
			}
			continue
		}
		for _, child := range node.Children {
			if child.Name == word {
				node, flags = child, append(flags, child.Flags...)
				break
			}
		}
	}
	for _, child := range node.Children {
		if !child.Hidden {
			items = append(items, [2]string{child.Name, child.Help})
		}
	}
	for _, positional := range node.Positional {
		for _, value := range positional.EnumSlice() {
			items = append(items, [2]string{value, positional.Help})
		}
	}
	for _, f := range flags {
		if !f.Hidden {
			items = append(items, [2]string{"--" + f.Name, strings.ReplaceAll(f.Help, "\n", " ")})
		}
	}
	return items
}
