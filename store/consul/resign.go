package consul

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/hashicorp/consul/api"
)

// RequestResignation implements engine.Resigner. The mark is a flag of the ballot's key, whose lock stays as it is.
func (d *driver) RequestResignation(ctx context.Context, election string, token uint64) error {
	dir := d.layout.dir(election)
	pairs, err := agent.Certain(ctx, func(ctx context.Context) (api.KVPairs, error) { return d.client.List(ctx, dir) })
	if err != nil {
		return err
	}
	list := queue(dir, pairs)
	i := slices.IndexFunc(list, func(p *api.KVPair) bool { return p.CreateIndex == token })
	if i < 0 || list[i].Flags&isCalled != 0 {
		return nil
	}
	p := list[i]
	_, err = d.client.Commit(ctx,
		&api.KVTxnOp{Verb: api.KVCheckIndex, Key: p.Key, Index: p.ModifyIndex},
		&api.KVTxnOp{Verb: api.KVSet, Key: p.Key, Value: p.Value, Flags: p.Flags | isCalled},
	)
	if r := agent.RefusalIn(err); r != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, r) // it has changed, and is read again
	}
	return err
}
