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

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// What an error means.
//
// Answers come from an agent, or from something in between: a gateway, a proxy, a load balancer. Only what Consul alone
// says, in its own words, is certain. Everything else is an odd answer: the request may have been carried out, and is
// sent again. Where Consul's words might come from something else too, such as a 404, it is asked twice.

// explain sorts errors, and takes note of what goes on below.
func (d *driver) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil && d.dialer != nil {
		d.leaveAgent(ctx)
	}
	err = d.classify(err)
	d.config.Logger.Debug("a request failed", "store", d.life.Name, "error", err)
	return err
}

func (d *driver) classify(err error) error {
	if matchesStore(err) || refusalIn(err) != nil || errors.Is(err, errEnded) || errors.Is(err, errUnchecked) {
		return err
	}
	var status api.StatusError
	code, text := 0, ""
	if errors.As(err, &status) {
		code, text = status.Code, status.Body
	} else if body, ok := strings.CutPrefix(err.Error(), "Failed request: "); ok { // of a transaction
		text = body
	}
	c := d.config
	if denied := denial(text); denied != nil {
		return denied
	}
	switch {
	case code == http.StatusForbidden, isPage(text):
		return &oddAnswer{strings.TrimSpace(fmt.Sprintf("%s (%d)", oneLine(text), code))}
	case strings.Contains(text, "HTTP request to an HTTPS server"):
		if d.worked.Load() {
			return &oddAnswer{"it speaks TLS"}
		}
		return d.mismatch(fmt.Errorf("%w: the agent speaks TLS, the scheme has to be consul+tls", store.ErrUnavailable))
	case strings.Contains(text, "No path to datacenter") && d.worked.Load(): // servers that restart don't know it yet
		return fmt.Errorf("%w: %s", store.ErrUnavailable, oneLine(text))
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
		return fmt.Errorf("%w: %s", store.ErrUnavailable, oneLine(text))
	case code/100 == 4:
		return &oddAnswer{fmt.Sprintf("%s (%d)", cmp.Or(oneLine(text), http.StatusText(code)), code)}
	case text != "":
		return fmt.Errorf("%w: the agent says: %s", store.ErrUnknownOutcome, oneLine(text))
	}
	return d.classifyNet(err)
}

// errHopeless says that the connection can't be made with these settings: waiting does not help.
var errHopeless = errors.New("settings and agent do not match")

// mismatch adds to an error that the settings are wrong, unless the store has worked with them.
func (d *driver) mismatch(err error) error {
	if d.worked.Load() {
		return err
	}
	return fmt.Errorf("%w: %w", err, errHopeless)
}

func (d *driver) classifyNet(err error) error {
	var (
		unverified *tls.CertificateVerificationError
		header     tls.RecordHeaderError
		invalid    x509.CertificateInvalidError
		dial       *net.OpError
	)
	switch {
	case errors.As(err, &unverified), errors.As(err, &invalid):
		return d.mismatch(fmt.Errorf("%w: %w", store.ErrUnavailable, err))
	case errors.As(err, &header), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		if d.worked.Load() {
			return fmt.Errorf("%w: the answer is not TLS: %w", store.ErrUnavailable, err)
		}
		return d.mismatch(fmt.Errorf("%w: the agent does not speak TLS, the scheme has to be consul: %w", store.ErrUnavailable, err))
	case strings.Contains(err.Error(), "remote error: tls:"): // in TLS 1.3 it comes behind the handshake
		return d.mismatch(fmt.Errorf("%w: %w", store.ErrUnavailable, err))
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errNoConnection):
		return fmt.Errorf("%w: no answer in time: %w", store.ErrUnknownOutcome, err)
	case errors.Is(err, errNoConnection), errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
}

func matchesStore(err error) bool {
	for _, known := range []error{
		store.ErrDenied, store.ErrInvalid, store.ErrClosed, store.ErrLost, store.ErrUnavailable, store.ErrUnknownOutcome,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// errAway says that the agent can't find out what the token may do, because its servers don't answer. It denies
// everything meanwhile, to a token that it names "primary-dc-down" (agent/consul/acl.go). A server that starts says for
// a moment that its ACL system must be bootstrapped.
var errAway = errors.New("the agent can't reach the servers that know the token")

// denial returns the error for Consul's words that the token does not do, and nil for other words.
func denial(text string) error {
	own := strings.Contains(text, "Permission denied") || strings.Contains(text, "ACL not found") ||
		strings.Contains(text, "lacks permission")
	switch {
	case !own || isPage(text):
		return nil
	case strings.Contains(text, "primary-dc-down"), strings.Contains(text, "must be bootstrapped"):
		return fmt.Errorf("%w: %w: %s", store.ErrUnavailable, errAway, oneLine(text))
	}
	return fmt.Errorf("%w: %s", store.ErrDenied, strings.TrimPrefix(oneLine(text), "Permission denied: "))
}

// isPage reports whether a text is markup: Consul's errors are plain text.
func isPage(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "<") }

// oneLine returns the beginning of a text on one line.
func oneLine(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// oddAnswer is the error for an answer that Consul does not give.
type oddAnswer struct{ what string }

// Error returns one line of text.
func (o *oddAnswer) Error() string { return "what answers is not a Consul agent: " + o.what }

// Is says that the request may have been carried out.
func (o *oddAnswer) Is(target error) bool { return target == store.ErrUnknownOutcome }

func isOdd(err error) bool {
	var odd *oddAnswer
	return errors.As(err, &odd)
}

// agents makes sure that an answer is that of an agent: whatever answers "not found" looks like a missing key.
func agents(meta *api.QueryMeta, err error) error {
	if err == nil && meta.LastIndex == 0 {
		return &oddAnswer{"there is no X-Consul-Index"}
	}
	return err
}
