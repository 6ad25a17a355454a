package consul

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// requestLimit bounds a request. Servers without a leader hold one for up to 7 s before they give up.
const requestLimit = 10 * time.Second

// request sends a request and waits for its answer, or for ctx. The request itself goes on when ctx ends, so that its
// connection, which others use, does not break. Its outcome is then unknown.
func request[T any](ctx context.Context, s *Store, f func(ctx context.Context) (T, error)) (T, error) {
	return requestFor(ctx, s, requestLimit, f)
}

// requestFor is request with another limit.
func requestFor[T any](ctx context.Context, s *Store, limit time.Duration, f func(ctx context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	answered := make(chan result, 1)
	var zero T
	if !s.life.Go(func() {
		ctx, cancel := context.WithTimeout(s.life.Background, limit)
		defer cancel()
		value, err := f(ctx)
		err = s.explain(ctx, err)
		if err == nil {
			s.worked.Store(true)
		}
		answered <- result{value, err}
	}) {
		return zero, store.ErrClosed
	}
	select {
	case r := <-answered:
		return r.value, r.err
	case <-ctx.Done():
		return zero, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

func (s *Store) readOptions(ctx context.Context) *api.QueryOptions {
	c := s.config
	return (&api.QueryOptions{Datacenter: c.Datacenter, Namespace: c.Namespace, Partition: c.Partition}).WithContext(ctx)
}

// consistent are the options of a read that sees all that was written before it was sent: the server that answers has
// asked the others whether it still leads.
func (s *Store) consistent(ctx context.Context) *api.QueryOptions {
	q := s.readOptions(ctx)
	q.RequireConsistent = true
	return q
}

func (s *Store) writeOptions(ctx context.Context) *api.WriteOptions {
	c := s.config
	return (&api.WriteOptions{Datacenter: c.Datacenter, Namespace: c.Namespace, Partition: c.Partition}).WithContext(ctx)
}

// refusal says which operations of a transaction failed, so that nothing of it was carried out.
type refusal struct{ errs api.TxnErrors }

// Error returns one line of text.
func (r *refusal) Error() string {
	var b strings.Builder
	b.WriteString("the transaction was refused")
	for _, e := range r.errs {
		fmt.Fprintf(&b, "; operation %d: %s", e.OpIndex, e.What)
	}
	return b.String()
}

// says reports whether an operation failed for a reason that contains the text.
func (r *refusal) says(text string) bool {
	for _, e := range r.errs {
		if strings.Contains(e.What, text) {
			return true
		}
	}
	return false
}

// failed reports whether the operation with an index failed.
func (r *refusal) failed(index int) bool {
	for _, e := range r.errs {
		if e.OpIndex == index {
			return true
		}
	}
	return false
}

// refusalIn returns the refusal that an error is, nil if it is another.
func refusalIn(err error) *refusal {
	var r *refusal
	_ = errors.As(err, &r)
	return r
}

// txn carries out a transaction. One of reads alone is a consistent read. If operations fail the error is a
// refusal; where one is not permitted it says that.
func (s *Store) txn(ctx context.Context, ops ...*api.KVTxnOp) (api.KVPairs, error) {
	all := make(api.TxnOps, len(ops))
	for i, o := range ops {
		o.Namespace, o.Partition = s.config.Namespace, s.config.Partition
		all[i] = &api.TxnOp{KV: o}
	}
	ok, resp, _, err := s.client.Txn().Txn(all, s.consistent(ctx))
	if err != nil {
		return nil, err
	}
	switch {
	case ok && resp.Results == nil: // an agent answers with an empty list at least
		return nil, &oddAnswer{"a transaction was answered without results"}
	case !ok && len(resp.Errors) == 0:
		return nil, &oddAnswer{"a transaction was refused without errors"}
	case !ok:
		r := &refusal{resp.Errors}
		if err := denial(r.Error()); err != nil {
			return nil, err
		}
		return nil, r
	}
	var pairs api.KVPairs
	for _, result := range resp.Results {
		if result.KV != nil {
			pairs = append(pairs, result.KV)
		}
	}
	return pairs, nil
}

// commit is txn as a request of its own.
func (s *Store) commit(ctx context.Context, ops ...*api.KVTxnOp) (api.KVPairs, error) {
	return request(ctx, s, func(ctx context.Context) (api.KVPairs, error) { return s.txn(ctx, ops...) })
}

// read reads a key, for a caller that does not try again.
func (s *Store) read(ctx context.Context, key string) (entry, error) {
	return certain(ctx, func(ctx context.Context) (entry, error) { return s.readOnce(ctx, key) })
}

// readOnce reads a key by one request.
func (s *Store) readOnce(ctx context.Context, key string) (entry, error) {
	return request(ctx, s, func(ctx context.Context) (entry, error) {
		p, meta, err := s.client.KV().Get(key, s.consistent(ctx))
		return entryOf(p), agents(meta, err)
	})
}

// certain asks up to three times: an odd answer is believed only if it keeps coming. What f does can be repeated.
func certain[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	for range 2 {
		value, err := f(ctx)
		if !isOdd(err) || ctx.Err() != nil {
			return value, err
		}
		adapter.Pause(ctx)
	}
	value, err := f(ctx)
	if isOdd(err) && ctx.Err() == nil {
		err = errors.New(err.Error()) // asking again does not help
	}
	return value, err
}
