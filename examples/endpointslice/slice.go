package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
)

// endpointSlice is an EndpointSlice of discovery.k8s.io/v1, as far as it is used here.
type endpointSlice struct {
	APIVersion  string     `json:"apiVersion"`
	Kind        string     `json:"kind"`
	Metadata    metadata   `json:"metadata"`
	AddressType string     `json:"addressType"`
	Endpoints   []endpoint `json:"endpoints"`
	Ports       []port     `json:"ports"`
}

type metadata struct {
	Name            string            `json:"name"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
}

type endpoint struct {
	Addresses  []string   `json:"addresses"`
	Conditions conditions `json:"conditions"`
}

type conditions struct {
	Ready bool `json:"ready"`
}

type port struct {
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"`
}

// tokenAnnotation has the fencing token of the leader that an EndpointSlice shows.
const tokenAnnotation = "leadership/token"

// slice returns the EndpointSlice that shows a leader. The labels say which service it belongs to, and that the
// controllers of Kubernetes leave it alone. The port has no name, as that of the service has none.
func slice(service string, leader netip.AddrPort, token uint64) *endpointSlice {
	s := &endpointSlice{
		APIVersion: "discovery.k8s.io/v1",
		Kind:       "EndpointSlice",
		Metadata: metadata{
			Name:        service + "-leader",
			Labels:      map[string]string{"kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": "leadership"},
			Annotations: map[string]string{tokenAnnotation: strconv.FormatUint(token, 10)},
		},
		AddressType: "IPv4",
		Endpoints:   []endpoint{{Addresses: []string{leader.Addr().String()}, Conditions: conditions{Ready: true}}},
		Ports:       []port{{Port: leader.Port(), Protocol: "TCP"}},
	}
	if leader.Addr().Is6() {
		s.AddressType = "IPv6"
	}
	return s
}

// errLater says that an EndpointSlice shows a later leader.
var errLater = errors.New("it shows a later leader")

// before returns an error unless the EndpointSlice shows an earlier leader, or the one with this token.
func (s *endpointSlice) before(token uint64) error {
	shown, err := strconv.ParseUint(s.Metadata.Annotations[tokenAnnotation], 10, 64)
	if err != nil {
		return fmt.Errorf("annotation %s: %w", tokenAnnotation, err)
	}
	if shown > token {
		return fmt.Errorf("%w: its token is %d, and this one %d", errLater, shown, token)
	}
	return nil
}
