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
		"SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$\nDECLARE\n\tidle ", "AS $$\nDECLARE\n\tidle ", "TestRightsOfAWriter"},
	{"a fence without a timeout", "schema.sql",
		"PERFORM set_config('idle_in_transaction_session_timeout', least(most, nullif(idle, 0))::text, true)", "NULL",
		"TestFrozenInATransaction"},
	{"no timeout while the server sends", "schema.sql",
		"PERFORM set_config('tcp_user_timeout', least(most, nullif(tcp, 0))::text, true)", "NULL", "TestFrozenInAnAnswer"},
	{"a timeout of the TTL", "schema.sql", "s.ttl / 4 INTO", "s.ttl INTO", "TestFrozenInATransaction"},
	{"a timeout that stays", "schema.sql", "nullif(idle, 0))::text, true", "nullif(idle, 0))::text, false", "TestFenceKeepsAShorterTimeout"},
	{"a timeout of TCP that stays", "schema.sql", "nullif(tcp, 0))::text, true", "nullif(tcp, 0))::text, false", "TestFenceKeepsAShorterTimeout"},
	{"no timeout is a short one", "schema.sql", "nullif(idle, 0)", "idle", "TestFenceKeepsAShorterTimeout"},
	{"no timeout of TCP is a short one", "schema.sql", "nullif(tcp, 0)", "tcp", "TestFenceKeepsAShorterTimeout"},
	{"a longer timeout is kept", "schema.sql", "least(most, nullif(idle, 0))", "coalesce(nullif(idle, 0), most)", "TestFenceKeepsAShorterTimeout"},
	{"a longer timeout of TCP is kept", "schema.sql", "least(most, nullif(tcp, 0))", "coalesce(nullif(tcp, 0), most)", "TestFenceKeepsAShorterTimeout"},
	{"a shorter timeout is not kept", "schema.sql", "least(most, nullif(idle, 0))", "most", "TestFenceKeepsAShorterTimeout"},
	{"a shorter timeout of TCP is not kept", "schema.sql", "least(most, nullif(tcp, 0))", "most", "TestFenceKeepsAShorterTimeout"},
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
