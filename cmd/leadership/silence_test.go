package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// quiet is a store that tells how long its first session has been silent.
type quiet struct {
	*memory.Store
	silence time.Duration
	err     error
}

func (q quiet) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	list, err := q.Store.Ballots(ctx, election)
	list[0].Silence = q.silence
	return list, errors.Join(q.err, err)
}

// A leader that might be dead, since its session was not renewed, is told from one that lives.
func TestSilence(t *testing.T) {
	for _, test := range []struct {
		silence                time.Duration
		err                    error
		warning, column, field string
	}{
		{0, nil, "", `^POSITION  TOKEN  STATE  VALUE\n1         \d+ +leads  a\n$`, ""},
		{time.Second, nil, "", `STATE  RENEWED  VALUE\n1 .*leads  1s ago   a\n`, `,"renewed_seconds_ago":1`},
		{1234567 * time.Millisecond, nil, "warning: the leader's session has not been renewed for 20m34.6s, by the store's clock: the leader might be dead\n",
			`RENEWED +VALUE\n1 .*leads  20m34\.6s ago  a\n`, `,"renewed_seconds_ago":1234.567`},
		{-time.Millisecond, nil, "warning: when the leader's session was renewed is not known: the leader might be dead\n",
			`RENEWED +VALUE\n1 .*leads  not known  a\n`, `,"renewed_seconds_ago":null`},
		{0, store.ErrUnavailable, "warning: when the leader's session was renewed is not known: ", "", ""},
	} {
		st, err := memory.Open(memory.NewService(), nil)
		require.NoError(t, err)
		ballot, err := st.Cast(t.Context(), "job", "a")
		require.NoError(t, err)
		require.NoError(t, ballot.Wait(t.Context()))
		_, err = ballot.Acknowledge(t.Context(), "a")
		require.NoError(t, err)
		name := fmt.Sprintf("quiet%d", schemes.Add(1))
		store.Register(name, func(context.Context, *store.URL) (store.Store, error) {
			return unclosed{quiet{st, test.silence, test.err}}, nil
		})
		run := func(args ...string) (out, errs string, err error) {
			var o, e strings.Builder
			err = (&app{in: strings.NewReader(""), out: &o, errs: &e}).run(append(args, "--store="+name+"://host/?ttl=10s", "--election=job"))
			return o.String(), e.String(), err
		}

		out, errs, err := run("leader")
		require.NoError(t, err)
		require.Equal(t, "a\n", out)
		require.True(t, strings.HasPrefix(strings.TrimPrefix(errs, "leadership: "), test.warning) && (errs == "") == (test.warning == ""), errs)
		out, _, err = run("leader", "--json")
		require.NoError(t, err)
		require.Regexp(t, `"leader":{"value":"a","revision":\d+`+test.field+`}}\n$`, out)
		if test.err == nil {
			out, _, err = run("ballots")
			require.NoError(t, err)
			require.Regexp(t, test.column, out)
			out, _, err = run("ballots", "--json")
			require.NoError(t, err)
			require.Regexp(t, `"leads":true`+test.field+`}\]`, out)
		}
		require.NoError(t, st.Close())
	}
}

// unclosed is open when a subcommand has closed it.
type unclosed struct{ store.Store }

func (unclosed) Close() error { return nil }
