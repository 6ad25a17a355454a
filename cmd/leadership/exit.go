package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/go-leadership/leadership/store"
)

// The exit codes of all subcommands. The subcommand run has more: see its help.
const (
	exitNo          = 1  // the answer is no
	exitUsage       = 64 // EX_USAGE of sysexits.h
	exitUnavailable = 69 // EX_UNAVAILABLE
	exitSoftware    = 70 // EX_SOFTWARE
	exitDenied      = 77 // EX_NOPERM
	exitSignal      = 128
)

// exitCodes is the text of --help about the exit codes.
const exitCodes = `Exit codes:

    0      done, or the answer is yes
    1      the answer is no: there is no leader, the ballot does not stand, ...
    64     a flag, the configuration file, a URL or a name is wrong
    69     the store did not answer within --timeout
    70     another failure, which the error explains
    77     the store denied it: wrong password, or no permission
    128+N  ended by signal N: 130 after Ctrl-C, 143 after SIGTERM (serve, watch and lifeline: 0),
           141 if its output is read no more`

const adviceUnavailable = "check the address, and that the service runs and can be reached from here; --timeout gives it longer"

const adviceDenied = "check the user and the password of the URL, and what docs/backends.md says of permissions"

// failure is an error with the program's exit code, and what the user can do next.
type failure struct {
	code   int
	err    error
	advice string // may be empty
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// interrupted is the cause of a context that was ended by a signal.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "interrupted: " + i.signal.String() }

// explain returns the exit code of an error, and what the user can do about it.
func explain(err error) (code int, advice string) {
	var (
		f     *failure
		usage *kong.ParseError
		sig   interrupted
	)
	switch {
	case err == nil:
		return 0, ""
	case errors.As(err, &sig):
		return exitSignal + int(sig.signal), ""
	case readerGone(err):
		return exitSignal + int(syscall.SIGPIPE), ""
	case outputFails(err): // --help's too, which kong wraps as wrong usage
		return exitSoftware, ""
	case errors.As(err, &f):
		return f.code, f.advice
	case errors.As(err, &usage):
		return exitUsage, "see " + helpOf(usage.Context)
	case errors.Is(err, store.ErrInvalid):
		return exitUsage, "correct the URL of the store or the name; docs/backends.md lists the options of each store"
	case errors.Is(err, store.ErrDenied):
		return exitDenied, adviceDenied
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return exitUnavailable, adviceUnavailable
	case errors.Is(err, errors.ErrUnsupported):
		return exitSoftware, "this store can't do that; docs/backends.md says what each store can do"
	}
	return exitSoftware, ""
}

// outputFails reports whether err is that of a write to stdout, to a full disk for example.
func outputFails(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && failed.Op == "write" && failed.Path == os.Stdout.Name()
}

// readerGone reports whether nothing reads stdout any more: in a pipe to head, for example.
func readerGone(err error) bool { return outputFails(err) && errors.Is(err, syscall.EPIPE) }

// helpOf is the command line that shows the help for one that was wrong.
func helpOf(c *kong.Context) string {
	if c == nil || c.Selected() == nil {
		return "leadership --help"
	}
	return c.Selected().FullPath() + " --help"
}
