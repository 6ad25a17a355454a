package consul_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// An operator asks the leader to resign: its work ends first, then its ballot is removed, and the next one leads.
func TestResignationOnRequest(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"short value": "leader", "long value": strings.Repeat("leader ", 100)} {
		t.Run(name, func(t *testing.T) {
			election, a := newElection(), open(t, consul.Config{})
			leader := contend(t, a, election, value)
			term := receive(t, leader.Terms, "the term")
			b := open(t, consul.Config{})
			next := cast(t, b, election, "next")
			waiting(t, next)
			require.NoError(t, b.RequestResignation(soon(t), election, term.Token()))
			receive(t, term.Context().Done(), "the end of the term")
			require.NoError(t, next.Wait(soon(t)))
			eventually(t, func() bool { return slices.Equal([]string{"next", value}, values(t, b, election)) }, "it stands again, at the back")
			require.NoError(t, b.RequestResignation(soon(t), election, term.Token()), "there is no such ballot any more")
			require.NoError(t, next.Err())
		})
	}
}
