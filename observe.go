package leadership

import (
	"context"

	"github.com/go-leadership/leadership/store"
)

// observe asks who leads, again and again, and calls show with each answer. It tells of an error and asks again after a
// while, but returns one that is permanent. It returns nil when ctx has ended.
func observe(ctx context.Context, st store.Store, ask func(prev *store.Known) (store.Known, error), tell func(event),
	show func(store.Known)) error {
	var prev *store.Known
	b := backoff{first: errorBackoff}
	var denied denial
	for {
		known, err := ask(prev)
		switch {
		case ctx.Err() != nil:
			return nil
		case denied.permanent(err, st):
			return err
		case err != nil:
			in := b.delay()
			tell(event{what: attemptFailed, err: err, time: in})
			sleep(ctx, in)
			continue
		}
		b.reset()
		prev = &known
		show(known)
	}
}
