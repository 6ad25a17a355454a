package demo

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// table shows the turns. The last might be under way.
func table(turns []turn) []string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "after\tleader\ttoken\tled after\tbound\tfollower knew after")
	for _, t := range turns {
		leader, token, took, bound, knew := "-", "-", milliseconds(time.Since(t.began))+" ...", "-", "-"
		if t.leader != "" {
			leader, token, took = t.leader, fmt.Sprint(t.token), milliseconds(t.took)
		}
		if t.bound > 0 {
			bound = t.bound.String()
		}
		if t.knew > 0 {
			knew = milliseconds(t.knew)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.after, leader, token, took, bound, knew)
	}
	w.Flush()
	return strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
}

// verdict returns an error with a sentence for everything in the turns that is not as promised.
func verdict(turns []turn) error {
	var errs []error
	var highest uint64
	for _, t := range turns {
		if t.leader != t.due {
			errs = append(errs, fmt.Errorf("after %q %s was elected, and %s was next in line", t.after, t.leader, t.due))
		}
		if t.token <= highest {
			errs = append(errs, fmt.Errorf("%s's token, %d, is not higher than %d, which was there before", t.leader, t.token, highest))
		}
		highest = max(highest, t.token)
		if t.bound > 0 && t.took > t.bound {
			errs = append(errs, fmt.Errorf("after %q it took %v until %s led, more than %v", t.after, t.took, t.leader, t.bound))
		}
	}
	return errors.Join(errs...)
}

func join(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
