package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// What an error means.
//
// Answers come from an agent, or from something in between: a gateway, a proxy, a load balancer. Only what Consul alone
// says, in its own words, is certain. Everything else is an odd answer: the request may have been carried out, and is
// sent again. A 404 might come from something else than Consul, too, so it counts as no answer.
// TestWhatAnswersMean has an answer for each case below.

// Explain turns the outcome of a request into an error on which callers decide.
func (c *Client) Explain(err error) error {
	if err == nil {
		return nil
	}
	err = c.classify(err)
	c.config.Logger.Debug("a request failed", "store", c.Life.Name, "error", err)
	return err
}

func (c *Client) classify(err error) error {
	if adapter.Uncertain(err) || store.Refused(err) {
		return err
	}
	var status api.StatusError
	code, text := 0, ""
	if errors.As(err, &status) {
		code, text = status.Code, status.Body
	} else if body, ok := strings.CutPrefix(err.Error(), "Failed request: "); ok { // of a transaction
		text = body
	}
	if denied := denial(text); denied != nil {
		return denied
	}
	var dial *net.OpError
	settings, line := c.config, OneLine(text)
	says := func(words string) bool { return strings.Contains(err.Error(), words) }
	refuse := func(field, value string) error { return adapter.Refuse(field, value, "the agent says: %s", line) }
	switch {
	case says("too many concurrent connections"):
		return errConnections
	case code == http.StatusForbidden, isPage(text):
		return Odd(strings.TrimSpace(fmt.Sprintf("%s (%d)", line, code)))
	case says("HTTP request to an HTTPS server"), says("server gave HTTP response to HTTPS client"), errors.As(err, new(tls.RecordHeaderError)):
		return adapter.HintTLS(fmt.Errorf("%w: %w", ErrRefused, err), "consul", settings.TLS != nil)
	case says("No path to datacenter"):
		return fmt.Errorf("%w: dc %q: it knows no such datacenter: %s", ErrRefused, settings.Datacenter, line)
	case says("invalid key name"):
		return fmt.Errorf("%w: %s", ErrKey, line)
	case says("cross datacenter lock"):
		return refuse("dc", settings.Datacenter)
	case says("Consul Enterprise feature"):
		return refuse("namespace or partition", strings.Trim(settings.Namespace+"/"+settings.Partition, "/"))
	case says("Invalid Session TTL"):
		return refuse("ttl", settings.TTL.String())
	case code == http.StatusRequestEntityTooLarge, says("too large"):
		return refuse("value", "")
	case code == http.StatusTooManyRequests, says("rate limit"):
		return engine.Answered(fmt.Errorf("%w: %s", store.ErrUnavailable, line))
	case says("No cluster leader"):
		return fmt.Errorf("%w: %s", store.ErrUnavailable, line)
	case code/100 == 4:
		return Odd(fmt.Sprintf("%s (%d)", cmp.Or(line, http.StatusText(code)), code))
	case text != "":
		return fmt.Errorf("%w: the agent says: %s", store.ErrUnknownOutcome, line)
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(x509.CertificateInvalidError)),
		says("remote error: tls:"): // in TLS 1.3 it comes behind the handshake
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case errors.Is(err, errNoConnection), errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: no answer in time: %w", store.ErrUnknownOutcome, err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
}

// ErrRefused says that an agent can be reached, and refuses a request: the settings of the store and of the agent might not
// match, or the agent can't find out what the token may do. Waiting does not help soon.
var ErrRefused = fmt.Errorf("%w: the agent refuses", store.ErrUnavailable)

// ErrKey says that the agent takes a key in transactions only, see Plain.
var ErrKey = engine.Answered(fmt.Errorf("%w: the agent refuses the name of a key", store.ErrUnavailable))

// errConnections says that an agent takes no more connections from this address. It has carried nothing out.
var errConnections = engine.Answered(fmt.Errorf("%w: the agent takes no more connections from this address, "+
	"of all its processes together: raise limits.http_max_conns_per_client of the agent", store.ErrUnavailable))

// denial returns the error for Consul's words that the token does not do, and nil for other words. While its servers don't
// answer, an agent denies everything to a token that it names "primary-dc-down" (agent/consul/acl.go). A server that starts
// says for a moment that its ACL system must be bootstrapped.
func denial(text string) error {
	own := strings.Contains(text, "Permission denied") || strings.Contains(text, "ACL not found") ||
		strings.Contains(text, "lacks permission")
	switch {
	case !own || isPage(text):
		return nil
	case strings.Contains(text, "primary-dc-down"), strings.Contains(text, "must be bootstrapped"):
		return fmt.Errorf("%w: it can't reach the servers that know the token: %s", ErrRefused, OneLine(text))
	}
	return fmt.Errorf("%w: %s", store.ErrDenied, strings.TrimPrefix(OneLine(text), "Permission denied: "))
}

// isPage reports whether a text is markup: Consul's errors are plain text.
func isPage(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "<") }

// OneLine returns the beginning of a text on one line.
func OneLine(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// ErrOdd says that Consul itself never answers like that. The request may have been carried out.
var ErrOdd = fmt.Errorf("%w: what answers is not a Consul agent", store.ErrUnknownOutcome)

// Odd returns an ErrOdd that says what the answer is.
func Odd(what string) error { return fmt.Errorf("%w: %s", ErrOdd, what) }

// FromAgent makes sure that an answer is that of an agent, and complete. Whatever answers "not found" looks like a missing
// key. Consul leaves what the token may not read out of a list, and says so if there is a token. That denial might pass.
func FromAgent(meta *api.QueryMeta, err error) error {
	switch {
	case err != nil:
		return err
	case meta.LastIndex == 0:
		return Odd("there is no X-Consul-Index")
	case meta.ResultsFilteredByACLs:
		return fmt.Errorf("%w: the token may not read all of the answer", store.ErrDenied)
	}
	return nil
}

// NotFound reports whether a request was answered with 404.
func NotFound(err error) bool {
	var status api.StatusError
	return errors.As(err, &status) && status.Code == http.StatusNotFound
}

// Refusing reports whether no agent can be reached, and one refuses connections.
func Refusing(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// Refusal says which operations of a transaction failed, so that nothing of it was carried out.
type Refusal struct{ errs api.TxnErrors }

// Error returns one line of text.
func (r *Refusal) Error() string {
	text := "the transaction was refused"
	for _, e := range r.errs {
		text += fmt.Sprintf("; operation %d: %s", e.OpIndex, e.What)
	}
	return text
}

// Says reports whether an operation failed for a reason that contains the text.
func (r *Refusal) Says(text string) bool {
	return slices.ContainsFunc(r.errs, func(e *api.TxnError) bool { return strings.Contains(e.What, text) })
}

// Failed reports whether the operation with an index failed.
func (r *Refusal) Failed(index int) bool {
	return slices.ContainsFunc(r.errs, func(e *api.TxnError) bool { return e.OpIndex == index })
}

// RefusalIn returns the refusal that an error is, nil if it is another.
func RefusalIn(err error) *Refusal {
	var r *Refusal
	_ = errors.As(err, &r)
	return r
}
