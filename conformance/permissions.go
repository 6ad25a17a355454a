package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-leadership/leadership/store"
)

// Permissions tries everything that the suite does, once, and returns what the service denied: an error for each, or
// nil. It stops with another error where the service does not answer.
func Permissions(ctx context.Context, h Harness) error {
	st, err := h.Open(ctx, NewNetwork().Dial)
	if err != nil {
		return err
	}
	defer st.Close()
	const election = "permissions"
	var missing []error
	var ballot store.Ballot
	steps := []struct {
		what        string
		needsBallot bool
		do          func() error
	}{
		{"read the leader", false, func() error { _, err := st.Leader(ctx, election, nil); return err }},
		{"list the ballots", false, func() error { _, err := st.Ballots(ctx, election); return err }},
		{"cast a ballot", false, func() (err error) { ballot, err = st.Campaign(ctx, election, "value"); return err }},
		{"wait for the ballot ahead", true, func() error { return ballot.Wait(ctx) }},
		{"acknowledge", true, func() error { _, err := ballot.Acknowledge(ctx, "value"); return err }},
		{"withdraw the ballot", true, func() error { return ballot.Withdraw(ctx) }},
		{"clear an election", false, func() error { return h.Clear(ctx, election) }},
	}
	for _, step := range steps {
		if step.needsBallot && ballot == nil {
			continue
		}
		err := step.do()
		switch {
		case errors.Is(err, store.ErrDenied):
			missing = append(missing, fmt.Errorf("the permission to %s is missing: %w", step.what, err))
		case err != nil:
			return errors.Join(append(missing, fmt.Errorf("%s: %w", step.what, err))...)
		}
	}
	return errors.Join(missing...)
}
