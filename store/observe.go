package store

import (
	"context"
	"time"
)

// Known is what a store knows of an election's leader.
type Known struct {
	Leader Leader
	AsOf   time.Time // the local time as of which it is right; it is never later than a time at which this leader led
}

// Observer is implemented by stores that return the leader together with the time as of which it leads. It is optional.
type Observer interface {
	// Observe returns the leader as soon as it differs from prev's, or is known to be right as of a later time. If prev
	// is nil, it asks the service. In all else it is like [Store.Leader].
	Observe(ctx context.Context, election string, prev *Known) (Known, error)
}
