package harness

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/conformance"
)

// Run runs the suite, four cases at a time, since cases mostly wait. Those that count run last, one by one.
func Run(t *testing.T, h conformance.Harness) {
	var cases sync.WaitGroup
	room := make(chan struct{}, 4)
	for _, c := range conformance.Cases() {
		if !counts(c) {
			room <- struct{}{}
			cases.Go(func() {
				defer func() { <-room }()
				group{c}.run(t, h)
			})
		}
	}
	cases.Wait()
	for _, c := range conformance.Cases() {
		if counts(c) {
			group{c}.run(t, h)
		}
	}
}

// counts reports whether a case counts requests or goroutines (G6 and G7), so that no other may run beside it.
func counts(c conformance.Case) bool {
	return slices.Contains(c.Promises, "G6") || slices.Contains(c.Promises, "G7")
}

// group is some cases that run at the same time.
type group []conformance.Case

// groups returns all cases but an-outage-is-quiet in groups of up to size. Those that count are alone. A store whose own
// line is cut notices nothing of the cluster, so single servers show that case as well.
func groups(size int) (list []group) {
	var several group
	for _, c := range conformance.Cases() {
		if c.Name == "an-outage-is-quiet" {
			continue
		}
		if counts(c) {
			list = append(list, group{c})
			continue
		}
		several = append(several, c)
		if len(several) == size {
			list, several = append(list, several), nil
		}
	}
	if len(several) > 0 {
		list = append(list, several)
	}
	return list
}

func (g group) name() string {
	var names []string
	for _, c := range g {
		names = append(names, c.Name)
	}
	return strings.Join(names, "+")
}

// run runs the cases as subtests, and returns when all have ended.
func (g group) run(t *testing.T, h conformance.Harness) {
	var cases sync.WaitGroup
	for _, c := range g {
		cases.Go(func() { t.Run(c.Name, func(t *testing.T) { c.Check(t, h) }) })
	}
	cases.Wait()
}
