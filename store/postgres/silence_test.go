package postgres

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// deadSession is a session without a holder in a fake server, as the functions of schema.sql show it.
type deadSession struct {
	rest    int64 // ms
	proofs  int
	expired bool
}

// newDeadSession makes the server show a dead session in each renewal. Its TTL is ten seconds.
func newDeadSession(f *fakeServer) *deadSession {
	s := &deadSession{rest: 10_000}
	f.answer["renew"] = func(args []string) []any {
		rows := []any{[]any{args[0], int64(7), int64(10_000)}}
		if !s.expired {
			rows = append(rows, []any{"dead", int64(1), s.rest})
		}
		return rows
	}
	f.answer["prove"] = func(args []string) []any {
		s.proofs++
		rest, err := strconv.ParseInt(args[2][1:len(args[2])-1], 10, 64)
		if err != nil || args[0] != "{dead}" || args[1] != "{1}" {
			f.t.Errorf("prove(%q)", args)
		}
		s.rest = min(s.rest, rest)
		return []any{""}
	}
	f.answer["expire"] = func([]string) []any { s.expired = true; return []any{true} }
	return s
}

// visit is a process that comes and goes after a while.
func visit(t *testing.T, f *fakeServer, config Config, patience time.Duration) {
	config.User, config.Database, config.Dial, config.Addresses = "x", "x", f.dial, []string{"a:1"}
	d, err := newDriver(config)
	require.NoError(t, err)
	s, _, err := d.Open(t.Context())
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	require.Error(t, s.Keep(ctx, func(engine.Proof) {}))
	require.NoError(t, s.End(t.Context(), nil))
	require.NoError(t, d.Close())
}

// Processes that come and go end a dead session together, whatever their patience: each begins where the one before
// ended.
func TestNewcomersFinishTheTTLTogether(t *testing.T) {
	for _, patience := range []time.Duration{time.Second, 4 * time.Second, 9 * time.Second} {
		inBubble(t, Config{TTL: 10 * time.Second}, func(t *testing.T, f *fakeServer, _ *driver) {
			dead := newDeadSession(f)
			visits := 0
			for ; !dead.expired && visits < 20; visits++ {
				time.Sleep(24 * time.Hour)
				visit(t, f, Config{TTL: 10 * time.Second}, patience)
			}
			least := int(10*time.Second/patience) + 1 // a session is ended when its last tenth has been seen
			require.LessOrEqual(t, visits, least+1, "of %v", patience)
			require.GreaterOrEqual(t, visits, least-1, "of %v", patience)
		})
	}
}

// A process that crashes has left what it has seen before the last third of the TTL, and not at each of its renewals: the
// mark of a session that is renewed stands for a sixth of the TTL.
func TestProofOfAProcessThatCrashes(t *testing.T) {
	inBubble(t, Config{TTL: 12 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		dead := newDeadSession(f)
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 9*time.Second)
		defer stop()
		require.Error(t, s.Keep(ctx, func(engine.Proof) {}))
		require.Equal(t, int64(2000), dead.rest)
		require.Equal(t, 2, dead.proofs)
	})
}

// What is left is rounded up to a millisecond, and reckoned before the request is sent: one that comes late, or is not
// answered, proves no more.
func TestProofIsNoLonger(t *testing.T) {
	inBubble(t, Config{TTL: 12 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		dead := newDeadSession(f)
		d.note("dead", 1, dead.rest, time.Now())
		time.Sleep(time.Second + time.Nanosecond)
		f.set(func() { f.hangs["prove"] = true })
		answered := make(chan struct{})
		go func() { d.writeProofs(t.Context(), time.Millisecond); close(answered) }()
		time.Sleep(3 * time.Second)
		d.writeProofs(t.Context(), time.Millisecond) // one at a time
		require.Len(t, f.called("prove"), 1)
		f.release()
		<-answered
		require.Equal(t, int64(9000), dead.rest)
		d.note("dead", 1, dead.rest, time.Now())
		d.writeProofs(t.Context(), time.Millisecond)
		require.Equal(t, int64(6000), dead.rest, "what this process has seen counts on")
		d.writeProofs(t.Context(), time.Millisecond)
		require.Equal(t, 2, dead.proofs, "there is nothing new")
	})
}
