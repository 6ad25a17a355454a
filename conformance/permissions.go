package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-leadership/leadership/store"
)

// Permissions tries everything that the suite does, once, and returns what the service denied: an error for each, or
// nil. It stops with another error if the service does not answer or refuses the credentials. wrote reports whether it
// might have written something.
func Permissions(ctx context.Context, h Harness) (wrote bool, err error) {
	st, err := h.Open(ctx, NewNetwork().Dial)
	if err != nil {
		return false, err
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
		{"read the leader", false, func() error { _, err := st.Observe(ctx, election, nil); return err }},
		{"list the ballots", false, func() error { _, err := st.Ballots(ctx, election); return err }},
		{"list the elections", false, func() error {
			_, err := st.Elections(ctx)
			if errors.Is(err, errors.ErrUnsupported) {
				return nil
			}
			return err
		}},
		{"cast a ballot", false, func() (err error) {
			ballot, err = st.Cast(ctx, election, "value")
			wrote = !errors.Is(err, store.ErrDenied)
			return err
		}},
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
		case errors.Is(err, store.ErrDenied) && !isOfCredentials(err):
			missing = append(missing, fmt.Errorf("the permission to %s is missing: %w", step.what, err))
		case err != nil:
			return wrote, errors.Join(append(missing, err)...)
		}
	}
	return wrote, errors.Join(missing...)
}

// isOfCredentials reports whether a service has refused the credentials, so that no permission is missing. The words are
// those of etcd, Consul and the ZooKeeper store.
func isOfCredentials(err error) bool {
	return slices.ContainsFunc([]string{
		"authentication failed", "user name is empty", "ACL not found", "refuses the identity",
	}, func(words string) bool { return strings.Contains(err.Error(), words) })
}
