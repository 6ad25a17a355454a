package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
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

// Plain reports whether every version of Consul takes a key in the path of a request. Version 1.21.5 refuses all other keys
// there, such as those with spaces or umlauts; later ones refuse a few of them. No version refuses a key in a transaction.
func Plain(key string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(",_./-?&=", r)
	}
	return !strings.ContainsFunc(key, odd) && !strings.Contains(key, "..")
}

// Get reads a key.
func (c *Client) Get(ctx context.Context, key string) (Read, error) {
	return Request(ctx, c, func(ctx context.Context) (Read, error) {
		if !Plain(key) {
			pairs, err := c.readAll(ctx, key)
			if err != nil {
				return Read{}, err
			}
			e := EntryOf(pairs[0])
			return Read{e, e.Modify}, nil
		}
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
		if !Plain(dir) {
			pairs, err := c.readAll(ctx, dir, &api.KVTxnOp{Verb: api.KVGetTree, Key: dir})
			return pairs[:max(0, len(pairs)-1)], err
		}
		pairs, meta, err := c.KV().List(dir, c.Consistent(ctx))
		pairs = slices.DeleteFunc(pairs, func(p *api.KVPair) bool { return p == nil })
		return pairs, FromAgent(meta, err)
	})
}

// readAll carries out reads in a transaction, and reads a key last. The agent leaves out what the token may not read, and does
// not say so; the key is never left out otherwise.
func (c *Client) readAll(ctx context.Context, key string, reads ...*api.KVTxnOp) (api.KVPairs, error) {
	pairs, err := c.transact(ctx, append(reads, &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key})...)
	if n := len(pairs); err == nil && (n == 0 || pairs[n-1].Key != key) {
		return nil, fmt.Errorf("%w: the token may not read %q, it lacks key:read", store.ErrDenied, key)
	}
	return pairs, err
}

// Keys lists the names of all keys below dir, which is plain, cut behind the separator, each once.
func (c *Client) Keys(ctx context.Context, dir, separator string) ([]string, error) {
	return Request(ctx, c, func(ctx context.Context) ([]string, error) {
		keys, meta, err := c.KV().Keys(dir, separator, c.Consistent(ctx))
		return keys, FromAgent(meta, err)
	})
}

// Commit carries out a transaction. One of reads alone is a consistent read. If operations fail the error is an answer that
// has a Refusal in it and matches store.ErrUnavailable, or store.ErrDenied if one is not permitted.
func (c *Client) Commit(ctx context.Context, ops ...*api.KVTxnOp) (api.KVPairs, error) {
	return Request(ctx, c, func(ctx context.Context) (api.KVPairs, error) {
		return c.transact(ctx, ops...)
	})
}

func (c *Client) transact(ctx context.Context, ops ...*api.KVTxnOp) (api.KVPairs, error) {
	all := make(api.TxnOps, len(ops))
	for i, o := range ops {
		o.Namespace, o.Partition = c.config.Namespace, c.config.Partition
		all[i] = &api.TxnOp{KV: o}
	}
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
		if r.Says("unknown KV verb") { // get-or-empty is new in 1.14.0
			return nil, fmt.Errorf("%w: this Consul is older than 1.14.0: %v", ErrRefused, r)
		}
		return nil, engine.Answered(fmt.Errorf("%w: %w", store.ErrUnavailable, r))
	}
	var pairs api.KVPairs
	for _, result := range resp.Results {
		if result != nil && result.KV != nil {
			pairs = append(pairs, result.KV)
		}
	}
	return pairs, nil
}
