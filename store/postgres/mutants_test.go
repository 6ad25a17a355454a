package postgres_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/mutants"
)

// mistakes are changes of one line of what the fence stands on, each with the test that must fail then. TestMutants makes
// them, if the package is built with the tag mutants.
var mistakes = []mutants.Mutant{
	{"a fence that does not lock", "schema.sql",
		"for_session FOR KEY SHARE OF e", "for_session", "TestFenceHoldsTheSuccessorAlone"},
	{"a fence that holds up acknowledgements", "schema.sql",
		"FOR KEY SHARE OF e", "FOR SHARE OF e", "TestAcknowledgeBesideATransaction"},
	{"a fence that holds up other transactions", "schema.sql",
		"FOR KEY SHARE OF e", "FOR UPDATE OF e", "TestAcknowledgeBesideATransaction"},
	{"a fence of any ballot of the session", "schema.sql",
		"e.token = for_token AND e.session = for_session FOR", "e.session = for_session FOR", "TestFenceInEachIsolationLevel"},
	{"a fence of any session", "schema.sql",
		"for_token AND e.session = for_session FOR", "for_token FOR", "TestFenceIsOfTheSession"},
	{"a fence that does not refuse", "schema.sql",
		"IF NOT FOUND THEN\n\t\tRAISE EXCEPTION 'the ballot", "IF false THEN\n\t\tRAISE EXCEPTION 'the ballot", "TestFence$"},
	{"another SQLSTATE", "schema.sql", "'LD001'", "'LD002'", "TestFence$"},
	{"another SQLSTATE in Go", "fence.go", `"LD001"`, `"LD002"`, "TestFence$"},
	{"a fence with the caller's rights", "schema.sql",
		"SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$\nDECLARE\n\tmost ", "AS $$\nDECLARE\n\tmost ", "TestRightsOfAWriter"},
	{"a fence without a timeout", "schema.sql",
		"PERFORM set_config('idle_in_transaction_session_timeout', most::text, true)", "NULL", "TestFrozenInATransaction"},
	{"a timeout of the TTL", "schema.sql", "s.ttl / 4 INTO", "s.ttl INTO", "TestFrozenInATransaction"},
	{"a timeout that stays", "schema.sql",
		"'idle_in_transaction_session_timeout', most::text, true", "'idle_in_transaction_session_timeout', most::text, false",
		"TestFenceKeepsAShorterTimeout"},
	{"no timeout while the server sends", "schema.sql",
		"PERFORM set_config('tcp_user_timeout', most::text, true)", "NULL", "TestFrozenInAnAnswer"},
	{"a timeout of TCP that stays", "schema.sql",
		"'tcp_user_timeout', most::text, true", "'tcp_user_timeout', most::text, false", "TestFenceKeepsAShorterTimeout"},
	{"no timeout is a short one", "schema.sql", "so_far = 0 OR so_far > most", "so_far > most", "TestFenceKeepsAShorterTimeout"},
	{"a longer timeout is kept", "schema.sql", "so_far = 0 OR so_far > most", "so_far = 0", "TestFenceKeepsAShorterTimeout"},
	{"a shorter timeout is not kept", "schema.sql", "so_far = 0 OR so_far > most", "true", "TestFenceKeepsAShorterTimeout"},
	{"a timeout in seconds", "schema.sql", "::interval) * 1000", "::interval)", "TestFenceKeepsAShorterTimeout"},
	{"the fence of another schema", "fence.go", "s.driver.config.Schema", `"leadership"`, "TestFenceKeepsAShorterTimeout"},
	{"arguments in the wrong order", "fence.go", "s.id, int64(e.Token)", "int64(e.Token), s.id", "TestFence$"},
	{"the wrong token", "fence.go", "int64(e.Token)", "int64(e.Token) + 1", "TestFence$"},
	{"the wrong session", "fence.go", "Args: []any{s.id,", `Args: []any{s.id + "x",`, "TestFence$"},

	{"an acknowledgement does not tell that the session has ended", "schema.sql",
		"outcome := CASE WHEN EXISTS (SELECT FROM {schema}.session WHERE id = for_session) THEN 'gone' ELSE 'over' END;",
		"outcome := 'gone';", "TestAcknowledgeBesideATransaction"},
	{"an acknowledgement does not lock", "schema.sql", "FOR NO KEY UPDATE;", ";", "TestAcknowledgeBesideATransaction"},
	{"an acknowledgement waits for the leader's transactions", "schema.sql",
		"FOR NO KEY UPDATE;", "FOR UPDATE;", "TestAcknowledgeBesideATransaction"},
	{"an earlier acknowledgement counts", "schema.sql", "last_turn >= for_turn", "false", "TestAcknowledgeBesideATransaction"},
}

func TestMutantsAreOfThisSource(t *testing.T) { mutants.Check(t, mistakes) }
