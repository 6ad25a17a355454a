package all_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/stretchr/testify/require"
)

// A server's data are replaced by an earlier copy. A candidate that has led since refuses tokens that are not higher
// than its last, and leads again once they have caught up. For etcd see TestRestored of its package.
func TestRestored(t *testing.T) {
	type server interface {
		Addrs() []string
		Member(i int) *testserver.Member
	}
	for kind, start := range map[string]func(t *testing.T) server{
		"zookeeper": func(t *testing.T) server { return testserver.NewZooKeeper(t, testserver.ZooKeeperConfig{}) },
		"consul":    func(t *testing.T) server { return testserver.NewConsul(t, testserver.ConsulConfig{}) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			srv := start(t)
			member := srv.Member(0)
			change := func(data func() error) {
				require.NoError(t, member.Stop())
				require.NoError(t, data())
				require.NoError(t, member.Start(soon(t)))
			}
			change(member.SaveData)
			o := newOperator(t, kind, srv.Addrs()[0])
			for range 100 {
				o.write(t)
			}

			st := open(t, kind+"://"+srv.Addrs()[0]+"/?ttl=2s", nil)
			refused, terms := make(chan struct{}, 1), make(chan uint64, 100)
			c, err := leadership.NewCandidate(st, newElection(), "own", &leadership.Options{Hooks: &leadership.Hooks{
				Error: func(_ string, err error, _ time.Duration) {
					if errors.Is(err, leadership.ErrTokenRegressed) {
						select {
						case refused <- struct{}{}:
						default:
						}
					}
				},
			}})
			require.NoError(t, err)
			ended := make(chan error, 1)
			go func() {
				ended <- c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
					terms <- term.Token()
					<-ctx.Done()
					return nil
				})
			}()
			defer func() { c.Stop(); require.NoError(t, <-ended) }()
			await := func() (token uint64) {
				select {
				case token = <-terms:
				case <-soon(t).Done():
					require.FailNow(t, "it does not lead")
				}
				return token
			}
			first := await()

			change(member.RestoreData)
			select {
			case <-refused:
			case token := <-terms:
				require.FailNow(t, "it leads", "with token %d after %d", token, first)
			case <-soon(t).Done():
				require.FailNow(t, "no token was refused")
			}
			require.False(t, c.IsLeader())
			o = newOperator(t, kind, srv.Addrs()[0])
			for range 200 {
				o.write(t)
			}
			require.Greater(t, await(), first)
		})
	}
}
