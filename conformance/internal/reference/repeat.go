package reference

import (
	"context"

	"github.com/go-leadership/leadership/internal/adapter"
)

// repeat carries out a user's call that may be carried out more than once: f is called until its error is one that
// another attempt can't cure, or ctx has ended.
func repeat[T any](ctx context.Context, l *adapter.Lifecycle, op, election string, f func(context.Context) (T, error)) (T, error) {
	var none T
	call, done, err := l.Call(ctx)
	if err != nil {
		return none, l.Fail(op, election, err)
	}
	defer done()
	var last error // of the attempt before
	for {
		value, err := f(call)
		switch {
		case err == nil:
			return value, nil
		case call.Err() != nil:
			return none, l.Fail(op, election, adapter.Ended(call, err, last))
		case !adapter.Uncertain(err):
			return none, l.Fail(op, election, err)
		}
		last = err
		adapter.Pause(call)
	}
}
