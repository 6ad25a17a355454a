package adapter

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Dialer opens the connections of a store. The name of a server might have several addresses, and some of them might be
// dead. So Dial looks the name up each time, and tries its addresses one after the other, without waiting until the one
// before has failed. (A net.Dialer gives the first address up to 2 s.)
type Dialer struct {
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	lookup func(ctx context.Context, host string) ([]netip.Addr, error) // nil: dial is the program's, and takes names

	mu    sync.Mutex
	first map[string]first // guarded by mu: by the name and port of a server
}

// first is where the next dial of a name begins: at an address, or behind it.
type first struct {
	address netip.Addr
	behind  bool
}

// NewDialer returns a Dialer for addresses that dial reaches. If lookup is nil, dial gets the names as they are.
func NewDialer(dial func(ctx context.Context, network, address string) (net.Conn, error),
	lookup func(ctx context.Context, host string) ([]netip.Addr, error),
) *Dialer {
	return &Dialer{dial: dial, lookup: lookup, first: map[string]first{}}
}

// SystemDialer returns a Dialer that uses the system's resolver and network.
func SystemDialer() *Dialer {
	return NewDialer((&net.Dialer{}).DialContext, func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	})
}

// apart is the time from one attempt to the next. It is shorter if ctx ends soon: the last address has half of the time.
const apart = 250 * time.Millisecond

// Dial connects to a server, "host:port". It begins with the address that it reached last, unless Leave was called since.
// All attempts have ended when it returns.
func (d *Dialer) Dial(ctx context.Context, server string) (net.Conn, error) {
	addresses, err := d.Addresses(ctx, server)
	if err != nil {
		return nil, err
	}
	conn, at, err := d.race(ctx, addresses)
	if len(addresses) == 1 {
		return conn, err
	}
	reached, _ := netip.ParseAddrPort(addresses[at])
	d.mu.Lock()
	defer d.mu.Unlock()
	d.first[server] = first{reached.Addr(), err != nil}
	return conn, err
}

// Leave makes the next dial of a server begin with another address than the one that Dial has reached: address, as the
// connection's RemoteAddr says it. The server there does not work.
func (d *Dialer) Leave(server string, address net.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, ok := d.first[server]; ok && netip.AddrPortFrom(f.address, 0) == withoutPort(address) {
		d.first[server] = first{f.address, true}
	}
}

func withoutPort(address net.Addr) netip.AddrPort {
	a, _ := netip.ParseAddrPort(address.String())
	return netip.AddrPortFrom(a.Addr().Unmap(), 0)
}

// Addresses looks a server up, "host:port". It returns its addresses with the port, the one to begin with first.
func (d *Dialer) Addresses(ctx context.Context, server string) ([]string, error) {
	host, port, err := net.SplitHostPort(server)
	if _, no := netip.ParseAddr(host); err != nil || no == nil || d.lookup == nil {
		return []string{server}, nil
	}
	found, err := d.lookup(ctx, host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	if len(found) == 0 {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}}
	}
	d.mu.Lock()
	begin, known := d.first[server]
	d.mu.Unlock()
	var list []string
	for _, address := range ordered(found, begin, known) {
		list = append(list, net.JoinHostPort(address.String(), port))
	}
	return list, nil
}

// ordered returns addresses in the order of their attempts: as the resolver has sorted them, IPv4 and IPv6 by turns. Once
// an address is known to begin with, the order is always the same, so that each has its turn.
func ordered(found []netip.Addr, begin first, known bool) []netip.Addr {
	found = slices.Clone(found)
	for i := range found {
		found[i] = found[i].Unmap()
	}
	if known = known && slices.Contains(found, begin.address); known {
		slices.SortFunc(found, netip.Addr.Compare)
	}
	family := func(a netip.Addr) bool { return a.Is4() == found[0].Is4() }
	one := slices.DeleteFunc(slices.Clone(found), func(a netip.Addr) bool { return !family(a) })
	other := slices.DeleteFunc(slices.Clone(found), family)
	var list []netip.Addr
	for len(one)+len(other) > 0 {
		list = append(append(list, one[:min(1, len(one))]...), other[:min(1, len(other))]...)
		one, other = one[min(1, len(one)):], other[min(1, len(other)):]
	}
	if known {
		at := slices.Index(list, begin.address)
		if begin.behind {
			at++
		}
		list = slices.Concat(list[at:], list[:at])
	}
	return list
}

// race dials addresses until one is reached, and returns which. If none is, that is the first.
func (d *Dialer) race(ctx context.Context, addresses []string) (net.Conn, int, error) {
	type result struct {
		at   int
		conn net.Conn
		err  error
	}
	every := apart
	if until, ok := ctx.Deadline(); ok {
		every = min(every, time.Until(until)/time.Duration(2*len(addresses)))
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan result, len(addresses))
	begun, ended := 0, 0
	begin := func() {
		at := begun
		go func() {
			conn, err := d.dial(ctx, "tcp", addresses[at])
			results <- result{at, conn, err}
		}()
		begun++
	}
	defer func() {
		cancel()
		for ; ended < begun; ended++ {
			if r := <-results; r.err == nil {
				_ = r.conn.Close()
			}
		}
	}()
	timer := time.NewTimer(every)
	defer timer.Stop()
	var failed error
	for begin(); ; {
		select {
		case r := <-results:
			ended++
			switch {
			case r.err == nil:
				return r.conn, r.at, nil
			case failed == nil:
				failed = r.err
			default:
				failed = fmt.Errorf("%w; %w", failed, r.err)
			}
			if ended == len(addresses) {
				return nil, 0, failed
			}
		case <-timer.C:
		}
		if begun < len(addresses) {
			begin()
			timer.Reset(every)
		}
	}
}
