// Package hostport checks the addresses of servers, in URLs and in the settings of all stores alike.
package hostport

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// RefuseAny returns which address of a list can't be used, and why; "" if all can.
func RefuseAny(addresses []string) (reason string) {
	for i, address := range addresses {
		if reason := Refuse(address); reason != "" {
			return fmt.Sprintf("host %d: %s", i+1, reason)
		}
	}
	return ""
}

// WithPorts returns addresses that RefuseAny accepts, with the port for each that names none.
func WithPorts(addresses []string, port string) []string {
	addresses = slices.Clone(addresses)
	for i, address := range addresses {
		addresses[i] = WithPort(address, port)
	}
	return addresses
}

// Refuse returns why an address can't be used, "" if it can. It must be "host", "host:port", "[IPv6]" or "[IPv6]:port".
// The reason shows no part of the address, which might hold a password.
func Refuse(address string) (reason string) {
	name := address
	if i := strings.LastIndexByte(address, ':'); i >= 0 && !strings.HasSuffix(address, "]") {
		name = address[:i]
		if n, err := strconv.ParseUint(address[i+1:], 10, 16); err != nil || n == 0 {
			return `what follows ":" is not a port, a number from 1 to 65535`
		}
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || !addr.Is6() || !strings.HasSuffix(inner, "]") {
			return "what stands in brackets is not an IPv6 address"
		}
		return ""
	}
	if name == "" || strings.ContainsAny(name, `:[]%"\/@,?#`) || strings.ContainsFunc(name, notPrinted) {
		return `it is not "host", "host:port" or "[IPv6]:port"`
	}
	return ""
}

// Hide returns the addresses with stars instead of those that can't be used: a whole URL with a password might have
// been written there.
func Hide(addresses []string) []string {
	addresses = slices.Clone(addresses)
	for i, address := range addresses {
		if Refuse(address) != "" {
			addresses[i] = "***"
		}
	}
	return addresses
}

func notPrinted(r rune) bool {
	return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar
}

// WithPort returns an address that Refuse accepts, with the port if it names none.
func WithPort(address, port string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), port)
}
