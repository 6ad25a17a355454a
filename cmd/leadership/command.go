package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-leadership/leadership/store"
)

// killDelay is how long a command of watch has between SIGTERM and SIGKILL when watch ends.
const killDelay = 10 * time.Second

// command runs the command of watch --exec for the latest leader, one at a time.
type command struct {
	latest chan store.Leader // of one element, which a later leader replaces; run writes, end closes
	ended  chan struct{}     // closed when no command runs, and none will
}

// command starts to run commands. When ctx ends, the command that runs gets SIGTERM.
func (c *watchCmd) command(ctx context.Context, a *app) *command {
	x := &command{latest: make(chan store.Leader, 1), ended: make(chan struct{})}
	go func() {
		defer close(x.ended)
		for leader := range x.latest {
			if c.Exec == nil || ctx.Err() != nil {
				continue
			}
			if err := c.start(ctx, a, leader).Run(); err != nil && ctx.Err() == nil {
				a.warnf("the command of --exec failed: %v", err)
			}
		}
	}()
	return x
}

// run runs the command for a leader, once the one that runs has ended, and unless another leader comes before.
func (x *command) run(leader store.Leader) {
	select {
	case <-x.latest: // an earlier leader, for which no command was started
	default:
	}
	x.latest <- leader
}

// end returns when the last command has ended.
func (x *command) end() {
	close(x.latest)
	<-x.ended
}

// start returns the command for a leader.
func (c *watchCmd) start(ctx context.Context, a *app, leader store.Leader) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", *c.Exec)
	cmd.Stdout, cmd.Stderr = a.out, a.errs
	if c.JSON {
		cmd.Stdout = a.errs
	}
	outer := func(variable string) bool { return strings.HasPrefix(variable, "LEADERSHIP_LEADER=") } // of another watch
	cmd.Env = append(slices.DeleteFunc(electionEnv(os.Environ(), c.Store, c.Election), outer),
		"LEADERSHIP_REVISION="+strconv.FormatUint(leader.Revision, 10))
	if strings.Contains(leader.Value, "\x00") {
		a.warnf("the leader's value has a zero byte, which no environment can hold: LEADERSHIP_LEADER is left out")
	} else {
		cmd.Env = append(cmd.Env, "LEADERSHIP_LEADER="+leader.Value)
	}
	ownGroup(cmd)
	cmd.WaitDelay = killDelay
	return cmd
}
