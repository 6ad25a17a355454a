package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// printTable shows who led when.
func printTable(out io.Writer, changes []change) {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\nleader\tsince\ttoken\tafter\ttook\tbound\tfollower knew")
	for _, c := range changes {
		bound, followed := "-", "-"
		if c.bound > 0 {
			bound = c.bound.String()
		}
		if c.followed > 0 {
			followed = "+" + milliseconds(c.followed)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n",
			c.leader, c.elected.Format("15:04:05.000"), c.token, c.what, milliseconds(c.took), bound, followed)
	}
	w.Flush()
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// verdict returns an error with a sentence for everything that is not as promised: the order of the leaders, their
// tokens, the time that each change took, and what the follower has heard, leader by leader.
func verdict(changes []change, heard []string) error {
	var errs []error
	failed := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	var led []string
	var highest uint64
	for _, c := range changes {
		led = append(led, c.leader)
		if c.token <= highest {
			failed("the token of %s, %d, is not higher than %d, which was there before", c.leader, c.token, highest)
		}
		highest = max(highest, c.token)
		if c.bound > 0 && c.took > c.bound {
			failed("after %s it took %v until %s was elected, more than %v", c.what, c.took, c.leader, c.bound)
		}
	}
	if !slices.Equal(led, candidates) {
		failed("%s led in turn, and they stood in line as %s", join(led), join(candidates))
	}
	if !slices.Equal(heard, led) {
		failed("the follower heard of %s, and %s led", join(heard), join(led))
	}
	return errors.Join(errs...)
}

func join(names []string) string {
	if len(names) == 0 {
		return "no leader"
	}
	return strings.Join(names, ", ")
}
