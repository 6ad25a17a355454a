package status

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-leadership/leadership"
)

// readyz serves /readyz.
func (h *Handler) readyz(w http.ResponseWriter, r *http.Request) {
	reasons := h.each(notReady, func(f *leadership.Follower) string {
		if f.AsOf().IsZero() {
			return "the store has not answered yet"
		}
		return ""
	})
	reasons = append(reasons, h.unknown()...)
	if h.config.Ready != nil {
		if err := h.config.Ready(r.Context()); err != nil {
			reasons = append(reasons, err.Error())
		}
	}
	answer(w, reasons)
}

// livez serves /livez.
func (h *Handler) livez(w http.ResponseWriter) {
	answer(w, h.each(h.wedged, func(*leadership.Follower) string { return "" }))
}

// healthz serves /healthz.
func (h *Handler) healthz(w http.ResponseWriter) {
	answer(w, append(h.unknown(), h.each(unhealthy, func(f *leadership.Follower) string {
		switch {
		case f.Err() != nil:
			return "the follower has ended: " + f.Err().Error()
		case f.AsOf().IsZero():
			return "the store has not answered yet"
		case !f.Fresh():
			return fmt.Sprintf("the store has not answered for %v", time.Since(f.AsOf()).Round(time.Millisecond))
		}
		return ""
	})...))
}

// unknown returns a reason if there is nothing to look at: the program has not begun.
func (h *Handler) unknown() []string {
	if len(h.set.Elections()) == 0 {
		return []string{"there is no candidate and no follower yet"}
	}
	return nil
}

// each returns the reasons of all candidates and followers that have one.
func (h *Handler) each(candidate func(leadership.Status) string, follower func(*leadership.Follower) string) (reasons []string) {
	for _, name := range h.set.Elections() {
		c, f := h.set.Of(name)
		if c != nil {
			if why := candidate(c.Status()); why != "" {
				reasons = append(reasons, name+": "+why)
			}
		}
		if f != nil {
			if why := follower(f); why != "" {
				reasons = append(reasons, name+": "+why)
			}
		}
	}
	return reasons
}

// notReady returns why a candidate takes no part and does not by itself again, or "".
func notReady(s leadership.Status) string {
	switch {
	case s.State == leadership.Idle:
		return "the candidate is idle"
	case s.State == leadership.Unfit:
		return fmt.Sprintf("the candidate is unfit: %v", s.Unfit)
	case s.State == leadership.Casting && !s.Stood:
		return "the candidate has had no ballot yet" + because(s)
	}
	return ""
}

// wedged returns why a restart would help, or "".
func (h *Handler) wedged(s leadership.Status) string {
	limit := h.config.WedgedAfter
	if limit == 0 {
		limit = max(10*s.TTL, time.Minute)
	}
	if s.State == leadership.WindingDown && time.Since(s.Since) > limit {
		return fmt.Sprintf("the work of a term that ended %v ago has not stopped", time.Since(s.Since).Round(time.Millisecond))
	}
	return ""
}

// unhealthy returns why someone should look, or "".
func unhealthy(s leadership.Status) string {
	long := time.Since(s.Since) > s.TTL
	switch {
	case s.State == leadership.Idle:
		return "the candidate is idle" + because(s)
	case s.State == leadership.Unfit:
		return fmt.Sprintf("the candidate is unfit: %v", s.Unfit)
	case s.State == leadership.Casting && (long || !s.Stood):
		return "the candidate has no ballot" + because(s)
	case s.State == leadership.TakingOver && long:
		return "it has led for longer than a TTL without an acknowledgement"
	case s.State == leadership.WindingDown && long:
		return "its term ended longer than a TTL ago, and its work has not stopped"
	case s.Overdue && s.State == leadership.Waiting:
		return "a renewal of the session is overdue: the ballot might be gone"
	case s.Overdue:
		return fmt.Sprintf("a renewal of the session is overdue: leadership ends in %v without one", s.Remaining.Round(time.Millisecond))
	}
	return ""
}

func because(s leadership.Status) string {
	if s.LastError == nil {
		return ""
	}
	return ": " + s.LastError.Error()
}

// answer writes the reasons against success, one a line.
func answer(w http.ResponseWriter, reasons []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(reasons) == 0 {
		_, _ = fmt.Fprintln(w, "ok")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	for _, reason := range reasons {
		_, _ = fmt.Fprintln(w, reason)
	}
}
