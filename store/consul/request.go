package consul

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// requestLimit bounds a request. Servers without a leader hold one for up to 7 s before they give up.
const requestLimit = 10 * time.Second

// request sends a request and waits for its answer, or for ctx. The request itself goes on when ctx ends: whoever gave
// up does not break a connection that others use. Its outcome is then unknown.
func request[T any](ctx context.Context, s *Store, f func(ctx context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	answered := make(chan result, 1)
	var zero T
	if !s.life.Go(func() {
		ctx, cancel := context.WithTimeout(s.life.Background, requestLimit)
		defer cancel()
		value, err := f(ctx)
		answered <- result{value, s.explain(ctx, err)}
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

// explain sorts errors, and takes note of what goes on below. What Consul said is certain; of everything else but a
// connection that could not be opened the request may have been carried out.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil && s.dialer != nil {
		s.dialer.silent()
	}
	err = s.config.classify(err)
	s.config.Logger.Debug("a request failed", "store", s.life.Name, "error", err)
	return err
}

func (c Config) classify(err error) error {
	var status api.StatusError
	code, text := 0, ""
	if errors.As(err, &status) {
		code, text = status.Code, status.Body
	} else if body, ok := strings.CutPrefix(err.Error(), "Failed request: "); ok { // of a transaction
		text = body
	}
	switch {
	case matchesStore(err), refusalIn(err) != nil, errors.Is(err, errEnded), errors.Is(err, errUnchecked), errors.Is(err, errNoAgent):
		return err
	case code == http.StatusForbidden || denied(text):
		return fmt.Errorf("%w: %s", store.ErrDenied, strings.TrimPrefix(text, "Permission denied: "))
	case strings.Contains(text, "HTTP request to an HTTPS server"):
		return fmt.Errorf("%w: the agent speaks TLS, the scheme has to be consul+tls: %w", store.ErrUnavailable, errHopeless)
	case strings.Contains(text, "No path to datacenter"), strings.Contains(text, "cross datacenter lock"):
		return adapter.Refuse("dc", c.Datacenter, "the agent says: %s", text)
	case strings.Contains(text, "Consul Enterprise feature"):
		return adapter.Refuse("namespace or partition", strings.Trim(c.Namespace+"/"+c.Partition, "/"), "the agent says: %s", text)
	case strings.Contains(text, "Invalid Session TTL"):
		return adapter.Refuse("ttl", c.TTL.String(), "the servers say: %s", text)
	case code == http.StatusRequestEntityTooLarge, strings.Contains(text, "too large"):
		return adapter.Refuse("value", "", "the agent says: %s", text)
	case code == http.StatusTooManyRequests, strings.Contains(text, "rate limit"),
		strings.Contains(text, "too many concurrent connections"), strings.Contains(text, "No cluster leader"):
		return fmt.Errorf("%w: %s", store.ErrUnavailable, text)
	case code/100 == 4:
		return fmt.Errorf("the agent refuses the request: %s (%d)", cmp.Or(text, http.StatusText(code)), code)
	case text != "":
		return fmt.Errorf("%w: the agent says: %s", store.ErrUnknownOutcome, text)
	}
	return classifyNet(err)
}

// errHopeless says that the connection can't be made with these settings: nobody has to wait in order to learn that.
var errHopeless = errors.New("settings and agent do not match")

func classifyNet(err error) error {
	var (
		unverified *tls.CertificateVerificationError
		header     tls.RecordHeaderError
		invalid    x509.CertificateInvalidError
		dial       *net.OpError
	)
	switch {
	case errors.As(err, &unverified), errors.As(err, &invalid):
		return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, errHopeless, err)
	case errors.As(err, &header), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("%w: the agent does not speak TLS, the scheme has to be consul: %w: %w", store.ErrUnavailable, errHopeless, err)
	case strings.Contains(err.Error(), "remote error: tls:"): // in TLS 1.3 it comes behind the handshake
		return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, errHopeless, err)
	case errors.Is(err, errNoConnection), errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
}

func matchesStore(err error) bool {
	for _, known := range []error{
		store.ErrDenied, store.ErrInvalid, store.ErrClosed, store.ErrLost,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// denied reports whether Consul's words mean that the token does not do.
func denied(text string) bool {
	return strings.Contains(text, "Permission denied") || strings.Contains(text, "ACL not found") ||
		strings.Contains(text, "lacks permission")
}

// agents makes sure that an answer is that of an agent: whatever answers "not found" looks like a missing key.
func agents(meta *api.QueryMeta, err error) error {
	if err == nil && meta.LastIndex == 0 {
		return errNoAgent
	}
	return err
}

var errNoAgent = errors.New("what answers is not a Consul agent")

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

// refusalIn returns the refusal that an error is, nil where it is another.
func refusalIn(err error) *refusal {
	var r *refusal
	_ = errors.As(err, &r)
	return r
}

// txn carries out a transaction. One of reads alone is a consistent read. Where operations fail the error is a
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
	if !ok {
		r := &refusal{resp.Errors}
		if denied(r.Error()) {
			return nil, fmt.Errorf("%w: %w", store.ErrDenied, r)
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

// read reads a key.
func (s *Store) read(ctx context.Context, key string) (entry, error) {
	return request(ctx, s, func(ctx context.Context) (entry, error) {
		p, meta, err := s.client.KV().Get(key, s.consistent(ctx))
		return entryOf(p), agents(meta, err)
	})
}
