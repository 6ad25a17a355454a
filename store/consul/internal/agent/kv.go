package agent

import (
	"context"
	"slices"

	"github.com/hashicorp/consul/api"
)

// Entry is a key as it was seen. The zero Entry is a key that does not exist.
type Entry struct {
	Exists         bool
	Value          string
	Session        string // that holds the lock; empty if none does
	Create, Modify uint64 // indexes of the service
	Flags          uint64
}

// EntryOf returns the entry of what Consul returned; it returns a key that does not exist as nil, or with no index.
func EntryOf(p *api.KVPair) Entry {
	if p == nil || p.CreateIndex == 0 {
		return Entry{}
	}
	return Entry{true, string(p.Value), p.Session, p.CreateIndex, p.ModifyIndex, p.Flags}
}

// Read is an entry as of an index of the service.
type Read struct {
	Entry
	Index uint64
}

// Get reads a key.
func (c *Client) Get(ctx context.Context, key string) (Read, error) {
	return Request(ctx, c, func(ctx context.Context) (Read, error) {
		p, meta, err := c.KV().Get(key, c.Consistent(ctx))
		if err = FromAgent(meta, err); err != nil {
			return Read{}, err
		}
		return Read{EntryOf(p), meta.LastIndex}, nil
	})
}

// List reads all keys below dir.
func (c *Client) List(ctx context.Context, dir string) (api.KVPairs, error) {
	return Request(ctx, c, func(ctx context.Context) (api.KVPairs, error) {
		pairs, meta, err := c.KV().List(dir, c.Consistent(ctx))
		pairs = slices.DeleteFunc(pairs, func(p *api.KVPair) bool { return p == nil })
		return pairs, FromAgent(meta, err)
	})
}

// Keys lists the names of all keys below dir, cut behind the separator, each once.
func (c *Client) Keys(ctx context.Context, dir, separator string) ([]string, error) {
	return Request(ctx, c, func(ctx context.Context) ([]string, error) {
		keys, meta, err := c.KV().Keys(dir, separator, c.Consistent(ctx))
		return keys, FromAgent(meta, err)
	})
}

// Commit carries out a transaction. One of reads alone is a consistent read. If operations fail the error is a Refusal,
// or store.ErrDenied if one is not permitted.
func (c *Client) Commit(ctx context.Context, ops ...*api.KVTxnOp) (api.KVPairs, error) {
	all := make(api.TxnOps, len(ops))
	for i, o := range ops {
		o.Namespace, o.Partition = c.config.Namespace, c.config.Partition
		all[i] = &api.TxnOp{KV: o}
	}
	return Request(ctx, c, func(ctx context.Context) (api.KVPairs, error) {
		ok, resp, _, err := c.Txn().Txn(all, c.Consistent(ctx))
		switch {
		case err != nil:
			return nil, err
		case ok && resp.Results == nil: // an agent answers with an empty list at least
			return nil, Odd("a transaction was answered without results")
		case !ok && len(resp.Errors) == 0:
			return nil, Odd("a transaction was refused without errors")
		case !ok:
			r := &Refusal{slices.DeleteFunc(resp.Errors, func(e *api.TxnError) bool { return e == nil })}
			if err := denial(r.Error()); err != nil {
				return nil, err
			}
			return nil, r
		}
		var pairs api.KVPairs
		for _, result := range resp.Results {
			if result != nil && result.KV != nil {
				pairs = append(pairs, result.KV)
			}
		}
		return pairs, nil
	})
}
