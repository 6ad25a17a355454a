package leadership

import (
	"errors"
	"time"

	"github.com/go-leadership/leadership/store"
)

// deniedFor is how long a service has to deny everything before a candidate or follower believes that it always will.
// A service denies also while it can't reach what knows the permissions, and for some time after that, since it caches
// what it found: a Consul agent for 30 s (acl_token_ttl). The rest is for the requests and the back-off between them.
const deniedFor = 40 * time.Second

// denial tells a denial that lasts from one that passes.
type denial struct {
	since time.Time // of the first in an unbroken row; zero if the last attempt was not denied
}

// final reports whether an attempt that ended with err shows that the service will go on denying: the store never
// worked, and each answer for deniedFor was a denial. A store that has worked once had permission, and might get it
// back.
func (d *denial) final(err error, worked bool) bool {
	switch {
	case worked || !errors.Is(err, store.ErrDenied):
		d.since = time.Time{}
		return false
	case d.since.IsZero():
		d.since = time.Now()
		return false
	}
	return time.Since(d.since) >= deniedFor
}
