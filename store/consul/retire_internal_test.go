package consul

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A session that can't be destroyed delays no other, and is given up once the servers have kept the present session for
// longer than the dead one can last: an error for each request of one kind is no outage.
func TestSessionThatIsNotDestroyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &awayAgent{}
		d, err := newDriver(Config{Addresses: []string{"a"}, TTL: leastSessionTTL, Dial: a.dial})
		require.NoError(t, err)
		defer a.serving.Wait()
		defer func() { require.NoError(t, d.Close()) }()
		_, _, err = d.Open(t.Context())
		require.NoError(t, err)
		stuck := d.retire(&session{driver: d, id: "stuck"})
		time.Sleep(10*time.Second + time.Second/4) // between two tries, which are a second apart
		began := time.Now()
		<-d.retire(&session{driver: d, id: "next"})
		require.Less(t, time.Since(began), 100*time.Millisecond)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		select {
		case <-stuck:
		default:
			require.Fail(t, "it is not given up")
		}
		sent := a.requests.Load()
		time.Sleep(time.Minute)
		require.Equal(t, sent, a.requests.Load())
	})
}
