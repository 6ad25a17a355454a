// Leadership shows and steers elections from the command line, on every store of this module:
//
//	go install github.com/go-leadership/leadership/cmd/leadership@latest
//	export LEADERSHIP_STORE='etcd://10.0.0.1:2379/?ttl=10s' LEADERSHIP_ELECTION=database/primary
//	leadership leader    # who leads
//	leadership ballots   # who stands, in order
//
// leadership --help lists the subcommands and the exit codes; docs/command.md explains them.
package main

import (
	"os"

	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/go-leadership/leadership/internal/demo"
	"github.com/go-leadership/leadership/lifeline"
	_ "github.com/go-leadership/leadership/store/all"
	_ "github.com/go-leadership/leadership/store/postgres"
)

func main() {
	guard.Main()    // does not return in a process that guards a command
	lifeline.Main() // does not return in a process that is the lifeline of a command's
	demo.Child()    // does not return in a process of the subcommand demo
	os.Exit(run(os.Args[1:]))
}
