package servers_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/stretchr/testify/require"
)

// asRole returns the trial with the URL of a role, without a password.
func (t trial) asRole(role string) trial {
	t.url = strings.Replace(t.url, testserver.PostgresUser+"@", role+"@", 1)
	return t
}

// A leader that is killed is replaced. The roles have the rights that the text of leadership schema has at its end, and
// no others: none of them may create a schema.
func TestPostgresRoles(t *testing.T) {
	t.Parallel()
	server := sharedPostgres(t)
	owner := trial{t, build(t), "postgres://" + testserver.PostgresUser + "@" + server.Addrs()[0] + "/postgres?ttl=12s", "job"}
	server.Query(t, "CREATE ROLE leadership_candidate LOGIN; CREATE ROLE leadership_follower LOGIN; CREATE ROLE some_role LOGIN")
	server.Query(t, "CREATE ROLE leadership_owner; GRANT CREATE ON DATABASE postgres TO leadership_owner")
	candidate, follower := owner.asRole("leadership_candidate"), owner.asRole("leadership_follower")

	// Without the schema there is no leader, and a candidate is told what to do.
	follower.exits(1, "leader")
	refused := candidate.start("run", "--wait=1m", "--", "true")
	storetest.Eventually(t, func() bool {
		return strings.Contains(refused.errs.String(), "let the owner of the database run what leadership schema postgres prints")
	}, "the candidate is told what to do")
	require.NoError(t, refused.cmd.Process.Signal(syscall.SIGTERM))
	refused.wait()

	// The owner runs what is printed, and then the lines about rights. Twice changes nothing.
	text := owner.exits(0, "schema", "postgres")
	server.Query(t, "SET ROLE leadership_owner;"+text)
	server.Query(t, "SET ROLE leadership_owner;"+text)
	rights := regexp.MustCompile(`(?m)^--   (GRANT .*)$`).FindAllStringSubmatch(text, -1)
	require.NotEmpty(t, rights)
	for _, line := range rights {
		server.Query(t, "SET ROLE leadership_owner;"+line[1])
	}

	// Two run, and one is killed with its command.
	pids := filepath.Join(t.TempDir(), "pids")
	run := func() *running {
		return candidate.start("run", "--value="+filepath.Base(t.TempDir()), "--", "sh", "-c", "echo $$ >>"+pids+"; exec sleep 1000")
	}
	watch := follower.start("watch", "--json")
	first := run()
	follower.exits(0, "leader", "--wait=1m")
	second := run()
	candidate.count(2)
	follower.until(func() bool {
		return strings.Contains(follower.exits(0, "ballots", "--json"), `"leads":true,"renewed_seconds_ago":0.`)
	}, "ballots shows renewals")
	require.NoError(t, first.cmd.Process.Kill())
	impatient := follower
	impatient.url = strings.Replace(follower.url, "ttl=12s", "ttl=3s", 1)
	impatient.until(func() bool {
		leader := impatient.start("leader")
		return leader.wait() == 0 && strings.Contains(leader.errs.String(), "the leader might be dead")
	}, "a warning of a leader whose session is not renewed")
	storetest.Eventually(t, func() bool {
		text, _ := os.ReadFile(pids)
		return strings.Count(string(text), "\n") == 2
	}, "the other command runs")
	storetest.Eventually(t, func() bool { return strings.Count(watch.out.String(), `"value"`) >= 2 }, "watch prints both leaders")
	require.NotContains(t, first.errs.String()+second.errs.String(), "lifeline")
	require.Len(t, follower.tokens(), 1)

	// A follower may not change anything. A role that reads with SQL sees the leader.
	require.NotEqual(t, 0, follower.start("clear", "--yes").wait())
	require.NotEqual(t, 0, follower.start("stepdown", "--yes", "--timeout=2s").wait())
	require.Contains(t, server.Query(t, "SET ROLE some_role; SELECT 'led: ' || election FROM leadership.leader"), "led: job")
	require.NoError(t, second.cmd.Process.Signal(syscall.SIGTERM))
	second.wait()
}
