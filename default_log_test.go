package leadership_test

import (
	"context"
	"log"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Without a logger, what a candidate and a follower do is found in the default log: a takeover that panics again and
// again, and a service that does not answer.
func TestDefaultLog(t *testing.T) {
	old := slog.Default()
	defer log.SetOutput(os.Stderr)
	defer slog.SetDefault(old)
	for _, opts := range []*leadership.Options{nil, {Hooks: &leadership.Hooks{}}} {
		virtual(t, func(w *world) {
			var out journal
			slog.SetDefault(out.logger())
			c := w.candidate(w.open(), "a", opts)
			c.OnWon(func(context.Context, *leadership.Term) error { panic("boom") })
			run(c, serve)
			f := w.follower(&fakeStore{Store: w.open(), observe: func(context.Context, string, *store.Known) (store.Known, error) {
				return store.Known{}, store.ErrUnavailable
			}}, opts)
			f.Start()
			w.at(time.Second)
			require.Contains(w, out.String(), "level=INFO msg=elected election=database/primary")
			require.Contains(w, out.String(), `level=WARN msg="attempt failed, will try again" election=database/primary `+
				`error="the leader's function failed: takeover failed: panic in a callback: boom`)
			require.Contains(w, out.String(), `error="service unavailable"`)
			halt(c)
			halt(f)
			synctest.Wait()
		})
	}
}
