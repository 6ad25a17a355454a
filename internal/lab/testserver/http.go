package testserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// caller calls HTTP interfaces.
type caller struct {
	client *http.Client
	scheme string
}

// newCaller returns a caller that uses TLS if it is given a configuration. It
// keeps no connection: tests count those of their own, and goroutines.
func newCaller(config *tls.Config) *caller {
	c := &caller{
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}},
		scheme: "http",
	}
	if config != nil {
		c.scheme = "https"
	}
	return c
}

// statusError is an answer other than 200.
type statusError struct {
	method, url string
	status      int
	body        []byte
}

func (e *statusError) Error() string {
	return fmt.Sprintf("testserver: %s %s: status %d: %s", e.method, e.url, e.status, bytes.TrimSpace(e.body))
}

// call sends the request, with a JSON body unless that is nil, and returns the
// body of the answer. The error is a *statusError if there was an answer.
func (c *caller) call(ctx context.Context, method, addr, path string, header http.Header, body any) ([]byte, error) {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(encoded)
	}
	url := c.scheme + "://" + addr + path
	request, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return nil, err
	}
	request.Header = header
	response, err := c.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("testserver: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("testserver: %s %s: %w", method, url, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, &statusError{method, url, response.StatusCode, answer}
	}
	return answer, nil
}
