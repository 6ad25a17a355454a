package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/go-leadership/leadership"
)

// checkFlags say when this process is fit to lead.
type checkFlags struct {
	CheckExec    string        `xor:"check" placeholder:"COMMAND" help:"Stand and lead only while this shell command succeeds. It has LEADERSHIP_STATE=waiting or leading."`
	CheckHTTP    string        `name:"check-http" xor:"check" placeholder:"URL" help:"Stand and lead only while this URL is answered with 2xx."`
	CheckEvery   time.Duration `default:"5s" placeholder:"5s" help:"The time between two checks. Default: 5s."`
	CheckTimeout time.Duration `default:"5s" placeholder:"5s" help:"A check that takes longer has failed. Default: 5s."`
	CheckFall    int           `default:"3" placeholder:"3" help:"Give up the ballot or the leadership after this many failures in a row. Default: 3."`
	GiveWayTo    []string      `placeholder:"VALUE" help:"When first in line, give the ballot back if a candidate with this value waits; not twice in a row. May be repeated."`
	CheckRise    int           `default:"1" placeholder:"1" help:"Stand after this many successes in a row. Default: 1."`
}

// check returns a usage error.
func (c checkFlags) check() error {
	switch {
	case c.CheckExec == "" && c.CheckHTTP == "":
		return nil
	case strings.Contains(c.CheckExec, "\x00"):
		return usage("--check-exec has a zero byte")
	case c.CheckEvery <= 0 || c.CheckTimeout <= 0 || c.CheckFall <= 0 || c.CheckRise <= 0:
		return usage("--check-every, --check-timeout, --check-fall and --check-rise have to be more than zero")
	}
	if u, err := url.Parse(c.CheckHTTP); c.CheckHTTP != "" && (err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http")) {
		return usage("--check-http is no URL that begins with http:// or https://")
	}
	return nil
}

// fitness returns what the candidate has to pass, or nil. env is the environment of the command.
func (c checkFlags) fitness(env []string) *leadership.Fitness {
	f := &leadership.Fitness{Every: c.CheckEvery, Timeout: c.CheckTimeout, Fall: c.CheckFall, Rise: c.CheckRise}
	switch {
	case c.CheckExec != "":
		f.Check = func(ctx context.Context, term *leadership.Term) error {
			return passes(ctx, c.CheckExec, env, term != nil)
		}
	case c.CheckHTTP != "":
		f.Check = func(ctx context.Context, _ *leadership.Term) error {
			if err := answers(ctx, c.CheckHTTP); err != nil {
				return fmt.Errorf("--check-http: %w", err)
			}
			return nil
		}
	default:
		return nil
	}
	return f
}

// passes runs a line of the shell in a process group of its own, which is killed when the line or ctx has ended. The error has the last line
// that it has written.
func passes(ctx context.Context, line string, env []string, leads bool) error {
	state := "waiting"
	if leads {
		state = "leading"
	}
	var said lastLine
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.Env = append(slices.Clip(env), "LEADERSHIP_STATE="+state)
	cmd.Stdout, cmd.Stderr = &said, &said
	killGroup(cmd)
	cmd.WaitDelay = time.Second // for what it has left behind in another group
	err := cmd.Run()
	if cmd.Process != nil {
		endGroup(cmd)
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return errors.New("--check-exec: it took too long, and was killed")
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		err = fmt.Errorf("it has ended with exit code %d", exit.ExitCode())
	}
	switch {
	case err == nil:
		return nil
	case len(said.text) > 0:
		return fmt.Errorf("--check-exec: %w: %s", err, said.text)
	}
	return fmt.Errorf("--check-exec: %w", err)
}

// lastLine keeps the last line of what is written, shortened.
type lastLine struct{ text []byte }

func (l *lastLine) Write(p []byte) (int, error) {
	const most = 500
	text := bytes.TrimSpace(append(l.text, p...))
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	l.text = bytes.Clone(text[:min(len(text), most)])
	return len(p), nil
}

// checkEnv is the environment of a check.
func (c *runCmd) checkEnv() []string { return commandEnv(os.Environ(), c.Store, c.Election, c.Value) }
