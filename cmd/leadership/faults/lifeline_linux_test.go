package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/stretchr/testify/require"
)

// soon are the faults after which the supervisor is dead, and nothing of the command is left a moment later: with a
// lifeline the next leader's command starts at once.
var soon = []string{
	"supervisor killed", "supervisor killed for memory", "supervisor and guardian killed", "guardian and init frozen, supervisor killed",
}

// TestLifeline makes faults of leadership run on etcd, with a lifeline of its own and without one. The next leader's
// command never starts before the old one has ended, and starts at once if the supervisor is dead and the command has
// gone. The trials have a long TTL, beside which a busy machine is no matter. With -every they are made one after the
// other, with the TTL of the table: the times are those of a machine that does nothing else.
func TestLifeline(t *testing.T) {
	meter := stall.Watch(t)
	p := build(t)
	with := servers(t, "etcd", sharedEtcd(t).Addrs()[0])
	without := with.without(t)
	base, begin := cell{machine: look(), programs: p, old: p.leadership, ttl: 12 * time.Second}, (*testing.T).Parallel
	if *every {
		base.ttl, begin = ttl, func(*testing.T) {}
	}
	sides := []side{{namespace, ordinary}, {subreaper, ordinary}}
	all := slices.Concat(base.on(with, run, sides, "daemon"), base.on(without, run, sides, "daemon"))
	all = append(all, base.on(with, run, []side{{unguarded, ordinary}}, "plain")...)
	try(t, slices.DeleteFunc(all, func(c cell) bool {
		switch {
		case c.mode == unguarded:
			return c.fault.name != soon[0]
		case slices.Contains(soon, c.fault.name):
			return !*every && c.service == without && c.fault.name != soon[0]
		default: // something of a leader is left until its lease ends, or the supervisor lives and resigns
			return !*every || c.fault.unborn || c.mode != namespace
		}
	}), begin, func(t *testing.T, c *cell, o outcome) {
		switch {
		case c.mode == unguarded:
			require.Greater(t, o.took, o.ttl/2, "the command does not keep the session")
		case !slices.Contains(soon, c.fault.name) || !c.covered():
		case c.service == with:
			require.Less(t, o.took, o.ttl/2+meter.Stalled(), "%v", meter)
		default:
			require.Greater(t, o.took, o.ttl/2, "there is a lifeline")
		}
	})
}
