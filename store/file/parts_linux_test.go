package file

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/stretchr/testify/require"
)

// TestPartsComeBack: an operator moves a part of the directory away. When another candidate leads, that part is moved
// back, or copied back to what has been made meanwhile. The old tickets are there again, of sessions that go on, and no
// candidate knows of its old ballot. There is a leader again, of which followers are told.
func TestPartsComeBack(t *testing.T) {
	for _, part := range []string{"e", "e/a/b", "e/a/b/_b"} {
		for _, way := range []string{"moved", "copied"} {
			t.Run(strings.ReplaceAll(part, "/", " ")+" "+way, func(t *testing.T) {
				t.Parallel()
				partComesBack(t, part, way == "moved")
			})
		}
	}
}

func partComesBack(t *testing.T, part string, moved bool) {
	c := configWith(t.TempDir()+"/store", 3*time.Second)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	resign := make(chan struct{}, 1)
	var leaders [3]atomic.Uint64 // the tokens with which they lead
	for i := range leaders {
		candidate, err := leadership.NewCandidate(openWith(t, c, kernel{}), "a/b", fmt.Sprint(i), nil)
		require.NoError(t, err)
		over := make(chan error, 1)
		go func() {
			over <- candidate.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
				leaders[i].Store(term.Token())
				defer leaders[i].Store(0)
				if err := term.Acknowledge(ctx); err != nil {
					return err
				}
				select {
				case <-resign:
				case <-ctx.Done():
				}
				return nil
			})
		}()
		defer func() {
			stop()
			require.ErrorIs(t, <-over, context.Canceled)
		}()
	}
	follower, err := leadership.NewFollower(openWith(t, c, kernel{}), "a/b", nil)
	require.NoError(t, err)
	follower.Start()
	defer follower.Stop()

	// leads waits until one leads, with a token above the last one, and the follower knows.
	var last uint64
	back := false
	leads := func(when string) {
		t.Helper()
		storetest.Eventually(t, func() bool {
			value, ok := follower.Leader()
			for i := range leaders {
				token := leaders[i].Load()
				if back && token > 0 && token <= last { // its ballot was not touched, or is there again
					select {
					case resign <- struct{}{}:
					default:
					}
				}
				if token > last && ok && value.Value == fmt.Sprint(i) {
					last = token
					return true
				}
			}
			return false
		}, "one leads %s", when)
	}
	leads("at first")
	path, away := c.Directory+"/"+part, c.Directory+"/away"
	require.NoError(t, os.Rename(path, away))
	leads("while it is away")
	if moved {
		require.NoError(t, os.Rename(path, away+"-too"))
		require.NoError(t, os.Rename(away, path))
	} else {
		out, err := exec.Command("cp", "-a", away+"/.", path).CombinedOutput()
		if err != nil { // a store removes a ballot of no session as soon as it sees one
			require.Regexp(t, `^(cp: .*: No such file or directory\n)+$`, string(out))
		}
	}
	back = true
	leads("when it is back")
}
