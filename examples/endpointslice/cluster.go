package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// cluster is the API server of Kubernetes, as a pod reaches it.
type cluster struct {
	url       string
	tokenFile string // Kubernetes replaces the token now and then
	namespace string
	client    *http.Client
}

// inCluster returns the API server of the pod's cluster. The directory is that of the service account.
func inCluster(directory string, getenv func(string) string) (*cluster, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	}
	namespace, err := os.ReadFile(filepath.Join(directory, "namespace"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(directory, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("ca.crt has no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	return &cluster{
		url:       "https://" + net.JoinHostPort(host, port),
		tokenFile: filepath.Join(directory, "token"),
		namespace: strings.TrimSpace(string(namespace)),
		client: &http.Client{Transport: transport, Timeout: 5 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a redirect is an error: a PUT would become a GET
		}},
	}, nil
}

// publish has the service's EndpointSlice show this leader. It does not overwrite a later leader: the version of what
// it has read is the condition for what it writes.
func (c *cluster) publish(ctx context.Context, service string, leader netip.AddrPort, token uint64) error {
	s := slice(service, leader, token)
	all := "/apis/discovery.k8s.io/v1/namespaces/" + c.namespace + "/endpointslices"
	one := all + "/" + s.Metadata.Name
	for {
		var found endpointSlice
		err := c.request(ctx, http.MethodGet, one, nil, &found)
		switch {
		case isStatus(err, http.StatusNotFound):
			err = c.request(ctx, http.MethodPost, all, s, nil)
		case err != nil:
			return err
		default:
			if err := found.before(token); err != nil {
				return fmt.Errorf("%s: %w", one, err)
			}
			s.Metadata.ResourceVersion = found.Metadata.ResourceVersion
			err = c.request(ctx, http.MethodPut, one, s, nil)
		}
		if !isStatus(err, http.StatusConflict) { // it has changed since it was read
			return err
		}
	}
}

// request sends a request to the API server.
func (c *cluster) request(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	token, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		refused := &statusError{request: method + " " + path, status: response.StatusCode}
		_ = json.Unmarshal(text, refused)
		return refused
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// statusError is an answer of the API server that is an error.
type statusError struct {
	request string
	status  int
	Message string `json:"message"`
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: %d: %s", e.request, e.status, e.Message)
}

func isStatus(err error, status int) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.status == status
}
