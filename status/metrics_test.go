package status_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// series returns the series of /metrics, with their labels.
func (w *world) series() map[string]float64 {
	w.Helper()
	_, body := w.get("/metrics")
	series, typed := map[string]float64{}, ""
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "# TYPE "); ok {
			typed, _, _ = strings.Cut(text, " ")
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "} ")
		require.True(w, ok && strings.HasPrefix(name, typed), line)
		number, err := strconv.ParseFloat(value, 64)
		require.NoError(w, err)
		require.NotContains(w, series, name+"}", "twice")
		series[name+"}"] = number
	}
	return series
}

// has checks some series.
func (w *world) has(want map[string]float64) {
	w.Helper()
	series := w.series()
	for name, value := range want {
		require.Contains(w, series, name)
		require.InDelta(w, value, series[name], 1e-6, name)
	}
}

// e returns a series of the election.
func e(name string, more ...string) string {
	return "leadership_" + name + `{` + strings.Join(append([]string{`election="` + election + `"`}, more...), ",") + `}`
}

func TestMetricsOfACandidate(t *testing.T) {
	virtual(t, func(w *world) {
		before := w.series()
		w.has(map[string]float64{
			e("is_leader"): 0, e("state", `state="idle"`): 1, e("state", `state="leading"`): 0, e("terms_total"): 0,
			e("terms_ended_total", `cause="lost"`): 0, e("errors_total", `kind="denied"`): 0, e("session_ttl_seconds"): 12,
			e("state_since_timestamp_seconds"): 946684800, e("takeover_duration_seconds_count"): 0,
		})
		w.run()
		pass(2 * time.Second)
		w.has(map[string]float64{
			e("is_leader"): 1, e("state", `state="taking_over"`): 1, e("terms_total"): 1, e("takeover_duration_seconds_count"): 0,
		})
		close(w.acknowledge)
		synctest.Wait()
		w.has(map[string]float64{
			e("is_leader"): 1, e("state", `state="leading"`): 1, e("state", `state="taking_over"`): 0,
			e("state_since_timestamp_seconds"):                          946684802,
			e("lease_remaining_seconds"):                                6,
			e("takeover_duration_seconds_count"):                        1,
			e("takeover_duration_seconds_sum"):                          2,
			e("takeover_duration_seconds_bucket", `le="1"`):             0,
			e("takeover_duration_seconds_bucket", `le="5"`):             1,
			e("takeover_duration_seconds_bucket", `le="+Inf"`):          1,
			`leadership_renewal_duration_seconds_count{store="memory"}`: 1,
		})
		pass(time.Second)
		w.c.Resign()
		pass(3 * time.Second)
		w.has(map[string]float64{
			e("is_leader"): 0, e("state", `state="winding_down"`): 1, e("lease_remaining_seconds"): 0,
			e("terms_ended_total", `cause="resigned"`): 1, e("winding_down_duration_seconds_count"): 0,
			`leadership_renewal_duration_seconds_count{store="memory"}`: 3, // each 3 s
			`leadership_renewal_duration_seconds_sum{store="memory"}`:   0,
		})
		close(w.finish)
		pass(100 * time.Millisecond)
		w.has(map[string]float64{
			e("terms_total"): 2, e("winding_down_duration_seconds_count"): 1, e("winding_down_duration_seconds_sum"): 3,
			e("takeovers_failed_total"): 0, e("takeover_duration_seconds_count"): 2, e("renewals_overdue_total"): 0,
		})
		w.store.Faults().Cut()
		pass(valid)
		w.has(map[string]float64{
			e("terms_ended_total", `cause="lost"`): 1, e("renewals_overdue_total"): 1, e("winding_down_duration_seconds_count"): 1,
		})
		pass(10 * ttl)
		require.Positive(w, w.series()[e("errors_total", `kind="unavailable"`)])
		require.Len(w, w.series(), len(before), "all series exist from the beginning")
	})
}

// TestEndsOfTerms: each cause, and what counts as a takeover that failed.
func TestEndsOfTerms(t *testing.T) {
	for cause, end := range map[string]func(w *world){
		"resigned": func(w *world) { w.c.Resign() },
		"stopped":  func(w *world) { w.c.Stop() },
		"closed":   func(w *world) { require.NoError(w, w.store.Close()) },
		"lost":     func(w *world) { w.service.Clear(election) },
		"requested": func(w *world) {
			require.NoError(w, w.store.RequestResignation(context.Background(), election, w.c.Status().Token))
		},
	} {
		t.Run(cause, func(t *testing.T) {
			virtual(t, func(w *world) {
				w.run()
				end(w)
				synctest.Wait()
				for _, other := range []string{"resigned", "requested", "stopped", "closed", "lost"} {
					want := 0.0
					if other == cause {
						want = 1
					}
					w.has(map[string]float64{e("terms_ended_total", `cause="`+other+`"`): want})
				}
				w.has(map[string]float64{e("takeovers_failed_total"): 1})
			})
		})
	}
}

// TestTermThatFails: the leader's function failed, whatever its error matches.
func TestTermThatFails(t *testing.T) {
	virtual(t, func(w *world) {
		w.Event(leadership.Event{Kind: leadership.TermEnded, Election: election, Token: 1, Err: fmt.Errorf("%w: %w", leadership.ErrFailed, store.ErrClosed)})
		w.has(map[string]float64{e("terms_ended_total", `cause="failed"`): 1, e("terms_ended_total", `cause="closed"`): 0})
	})
}

func TestMetricsOfAFollower(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		f, err := leadership.NewFollower(st, election, &leadership.FollowerOptions{Events: w.Event})
		require.NoError(w, err)
		defer func() { f.Stop(); <-f.Done() }()
		w.Follower(f)
		f.Start()
		synctest.Wait()
		w.has(map[string]float64{e("follower_has_leader"): 0, e("follower_changes_total"): 0, e("follower_age_seconds"): 0})
		term := w.leads()
		synctest.Wait()
		w.has(map[string]float64{
			e("follower_has_leader"): 1, e("follower_changes_total"): 1, e("follower_leaderless_seconds_count"): 0,
		})
		require.NoError(w, term.Withdraw(context.Background()))
		pass(3 * time.Second)
		w.has(map[string]float64{e("follower_has_leader"): 0, e("follower_changes_total"): 2})
		term = w.leads()
		synctest.Wait()
		w.has(map[string]float64{
			e("follower_changes_total"): 3, e("follower_leaderless_seconds_count"): 1, e("follower_leaderless_seconds_sum"): 3,
		})
		pass(time.Second)

		require.NoError(w, term.Withdraw(context.Background()))
		synctest.Wait()
		st.Faults().Cut()
		pass(2 * ttl)
		w.leads()
		st.Faults().Heal()
		pass(2 * ttl)
		w.has(map[string]float64{
			e("follower_changes_total"): 5, e("follower_has_leader"): 1,
		})
		require.LessOrEqual(w, w.series()[e("follower_age_seconds")], (ttl / 2).Seconds())
	})
}

// TestKindsOfErrors: each error has one kind.
func TestKindsOfErrors(t *testing.T) {
	virtual(t, func(w *world) {
		for kind, err := range map[string]error{
			"denied": store.ErrDenied, "unavailable": errors.Join(store.ErrDenied, store.ErrUnavailable),
			"unknown_outcome": store.ErrUnknownOutcome, "no_lease": leadership.ErrNoLease,
			"token_regressed": leadership.ErrTokenRegressed, "other": errors.New("else"),
			"failed": fmt.Errorf("%w: %w", leadership.ErrFailed, store.ErrDenied),
		} {
			w.Event(leadership.Event{Kind: leadership.AttemptFailed, Election: election, Err: err})
			w.has(map[string]float64{e("errors_total", `kind="`+kind+`"`): 1})
		}
	})
}

// TestLabelsAreEscaped: the name of a store may be any text.
func TestLabelsAreEscaped(t *testing.T) {
	virtual(t, func(w *world) {
		w.Renewed("a\"b\\c\nd\xff")(time.Second)
		w.has(map[string]float64{`leadership_renewal_duration_seconds_count{store="a\"b\\c\nd` + "\ufffd" + `"}`: 1})
	})
}
