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

// Observer is what a store implements that tells who leads and as of when together. It is optional.
type Observer interface {
	// Observe returns who leads as soon as the leader differs from that of prev, or is known to be right as of a later
	// time. If prev is nil, it asks the service. Otherwise it is as [Store.Leader].
	Observe(ctx context.Context, election string, prev *Known) (Known, error)
}
