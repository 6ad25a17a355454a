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

// request sends a request and waits for its answer, or for ctx. The request goes on when ctx ends, if it has been sent:
// a caller that gives up does not break a connection that others use. Its outcome is then unknown. What has not been sent
// leaves with its caller.
func request[T any](ctx context.Context, d *driver, f func(ctx context.Context) (T, error)) (T, error) {
	return requestFor(ctx, d, requestLimit, f)
}

// requestFor is request with another limit.
func requestFor[T any](ctx context.Context, d *driver, limit time.Duration, f func(ctx context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	answered := make(chan result, 1)
	var zero T
	if ctx.Err() != nil {
		return zero, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	base := d.life.Background
	if isLook(ctx) {
		base = look(base)
		if deadline, ok := ctx.Deadline(); ok {
			limit = min(limit, time.Until(deadline))
		}
	}
	s := &sending{}
	sendCtx, cancel := context.WithTimeout(s.trace(base), limit)
	s.cancel = cancel
	if !d.life.Go(func() {
		defer cancel()
		value, err := f(sendCtx)
		err = d.explain(sendCtx, err)
		if err == nil {
			d.worked.Store(true)
		}
		answered <- result{value, err}
	}) {
		cancel()
		return zero, store.ErrClosed
	}
	select {
	case r := <-answered:
		return r.value, r.err
	case <-ctx.Done():
		if s.leave() {
			return zero, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
		}
		return zero, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

func (d *driver) readOptions(ctx context.Context) *api.QueryOptions {
	c := d.config
	return (&api.QueryOptions{Datacenter: c.Datacenter, Namespace: c.Namespace, Partition: c.Partition}).WithContext(ctx)
}

// consistent are the options of a read that sees all that was written before it was sent: the server that answers has
// asked the others whether it still leads.
func (d *driver) consistent(ctx context.Context) *api.QueryOptions {
	q := d.readOptions(ctx)
	q.RequireConsistent = true
	return q
}

func (d *driver) writeOptions(ctx context.Context) *api.WriteOptions {
	c := d.config
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
// refusal, or store.ErrDenied if one is not permitted.
func (d *driver) txn(ctx context.Context, ops ...*api.KVTxnOp) (api.KVPairs, error) {
	all := make(api.TxnOps, len(ops))
	for i, o := range ops {
		o.Namespace, o.Partition = d.config.Namespace, d.config.Partition
		all[i] = &api.TxnOp{KV: o}
	}
	ok, resp, _, err := d.client.Txn().Txn(all, d.consistent(ctx))
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
func (d *driver) commit(ctx context.Context, ops ...*api.KVTxnOp) (api.KVPairs, error) {
	return request(ctx, d, func(ctx context.Context) (api.KVPairs, error) { return d.txn(ctx, ops...) })
}

// get reads a key.
func (d *driver) get(ctx context.Context, key string) (seed, error) {
	return request(ctx, d, func(ctx context.Context) (seed, error) {
		p, meta, err := d.client.KV().Get(key, d.consistent(ctx))
		if err = agents(meta, err); err != nil {
			return seed{}, err
		}
		return seed{entryOf(p), meta.LastIndex}, nil
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
