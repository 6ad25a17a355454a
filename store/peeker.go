package store

import "time"

// Peeker is a store that says when asked who leads, so that its followers are not woken by each confirmation. It is
// optional; an engine.Engine is one.
type Peeker interface {
	// Peek returns what the last call of [Store.Observe] would return now, and false if no call waits or the store does
	// not know. AsOf is as recent as that of Observe. What Peek and Observe return never goes back in time. It does not
	// block, and sends nothing.
	Peek(election string) (Known, bool)
}

// Never is an AsOf that does not come: Observe of a [Peeker] with it in prev returns for another leader alone.
var Never = time.Unix(1<<40, 0)
