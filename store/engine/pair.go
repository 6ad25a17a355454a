package engine

import "context"

// Pairs is a driver that watches two entries and reads both in one request.
type Pairs interface {
	// Pair does what Entry does for the own entry and for the nearest ahead. After an error neither is watched.
	Pair(ctx context.Context, own, nearest string, tellOwn, tellNearest Tell) (ownWatch, nearestWatch Watch, err error)
}

// pairs returns the driver if it reads two entries in one request and both have to be read. The caller holds mu.
func (b *ballot) pairs() Pairs {
	if b.own != nil && !b.own.stale {
		return nil
	}
	pairs, _ := b.engine.driver.(Pairs)
	return pairs
}

// watchBoth is watchOwn and watchPrev in one request.
func (b *ballot) watchBoth(ctx context.Context, pairs Pairs) error {
	b.mu.Lock()
	own, prev := &sight{key: b.entry.Key}, &sight{key: b.entry.Place.Nearest}
	b.mu.Unlock()
	ownWatch, prevWatch, err := pairs.Pair(ctx, own.key, prev.key, b.tellOwn(own), b.tellPrev(prev))
	if err != nil {
		return err
	}
	b.mu.Lock()
	oldOwn, oldPrev := b.replace(&b.own, own, ownWatch), b.replace(&b.prev, prev, prevWatch)
	state := prev.state
	b.mu.Unlock()
	oldOwn.stop()
	oldPrev.stop()
	b.meet(state)
	return nil
}
