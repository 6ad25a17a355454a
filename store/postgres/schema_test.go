package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// The rule of void: up to the latest turn that was void, no request of the slot makes an entry, in whatever order the
// requests arrive.
func TestVoid(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('a', 3000, 1), open('b', 3000, 1)")
	outcome := func(call string) string { return query("SELECT outcome FROM enter(" + call + ", 'value')") }

	require.Equal(t, "stands", outcome("'a', 'x', 'n5', 0, 5"))
	require.Equal(t, "done", query("SELECT void('a', 'x', 'n5', 0, 5)"))
	require.Equal(t, "0", query("SELECT count(*) FROM entry"), "void removes the entry")
	require.Equal(t, "void", outcome("'a', 'x', 'n5', 0, 5"), "of the same turn")
	require.Equal(t, "void", outcome("'a', 'y', 'n4', 0, 4"), "of an earlier turn")
	require.Equal(t, "done", query("SELECT void('a', 'x', 'n3', 0, 3)"), "a request that was on its way for long")
	require.Equal(t, "void", outcome("'a', 'x', 'n4', 0, 4"), "an earlier void must not take back a later one")
	require.Equal(t, "stands", outcome("'a', 'x', 'n1', 1, 1"), "of another slot")
	require.Equal(t, "stands", outcome("'b', 'x', 'n2', 0, 1"), "of another session")
	require.Equal(t, "stands", outcome("'a', 'x', 'n6', 0, 6"), "of a later turn")
	require.Equal(t, "done", query("SELECT void('a', 'x', 'n7', 0, 7)"))
	require.Equal(t, "void", outcome("'a', 'x', 'n7', 0, 7"), "of a later turn that is void, too")
	require.Equal(t, "stands", outcome("'a', 'x', 'n6', 0, 6"), "the entry of the nonce stands")
}

// The rule of a session: when it has ended, nothing of it is left, and each change answers that it is over.
func TestSessionIsOver(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('a', 3000, 1), open('b', 3000, 1)")
	query("SELECT void('a', 'x', 'n', 0, 1), enter('a', 'x', 'n2', 0, 2, 'v'), enter('b', 'x', 'n3', 0, 1, 'v')")
	query("SELECT close('a')")
	require.Equal(t, "b", query("SELECT session FROM entry"), "entries go with their session")
	require.Equal(t, "0", query("SELECT count(*) FROM void"))
	require.Equal(t, "over", query("SELECT outcome FROM enter('a', 'x', 'n4', 0, 3, 'v')"))
	require.Equal(t, "over", query("SELECT void('a', 'x', 'n4', 0, 3)"))
	require.Equal(t, "over", query("SELECT outcome FROM acknowledge('a', 1, 1, 'v')"))
	require.Empty(t, query("SELECT * FROM renew('a', 2)"), "though there is another session")
}

// The rule of ahead: of the entries of the election with lower tokens the nearest counts, and whether there are more.
func TestAhead(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('a', 3000, 1)")
	query("SELECT enter('a', CASE WHEN n = 3 THEN 'y' ELSE 'x' END, 'n' || n, n, 1, 'v') FROM generate_series(1, 5) n")
	for token, ahead := range map[string]string{"1": "t||f", "2": "t|1|f", "3": "t||f", "4": "t|2|t", "5": "t|4|t", "6": "f|5|t"} {
		require.Equal(t, ahead, query("SELECT * FROM ahead('"+map[bool]string{false: "x", true: "y"}[token == "3"]+"', "+token+")"), token)
	}
	require.Equal(t, "5|4|t", query("SELECT token, nearest, more FROM enter('a', 'x', 'n5', 5, 1, 'v')"))
}

// The rules of acknowledge: no earlier acknowledgement replaces a later one, no session acknowledges an entry of
// another one, and an election has one leader.
func TestAcknowledge(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('a', 3000, 1), open('b', 3000, 1)")
	query("SELECT enter('a', 'x', 'n1', 0, 1, 'v'), enter('b', 'x', 'n2', 0, 1, 'v'), enter('b', 'y', 'n3', 1, 1, 'v')")
	outcome := func(call string) string { return query("SELECT outcome FROM acknowledge(" + call + ")") }
	leaders := func() string {
		return query("SELECT string_agg(election || ' ' || convert_from(value, 'UTF8'), ', ' ORDER BY token) FROM leader")
	}
	require.Equal(t, "done", outcome("'a', 1, 2, 'second'"))
	require.Equal(t, "late", outcome("'a', 1, 1, 'first'"), "an earlier one that was on its way for long")
	require.Equal(t, "late", outcome("'a', 1, 2, 'again'"), "the same one, twice")
	require.Equal(t, "gone", outcome("'b', 1, 9, 'of another session'"))
	require.Equal(t, "gone", outcome("'a', 9, 9, 'of no entry'"))
	require.Equal(t, "x second", leaders())
	require.Equal(t, "done", outcome("'a', 1, 3, 'third'"))
	require.Equal(t, "done", outcome("'b', 3, 1, 'of another election'"))
	require.Equal(t, "x third, y of another election", leaders())

	require.Equal(t, "done", outcome("'b', 2, 2, 'next'"), "the entry ahead has come back with a copy of the data")
	require.Equal(t, "x next, y of another election", leaders())
	query("SELECT remove('a', 2)")
	require.Equal(t, "3", query("SELECT count(*) FROM entry"), "no session removes an entry of another one")
	query("SELECT remove('b', 2)")
	require.Equal(t, "2", query("SELECT count(*) FROM entry"))
}

// The rule of expire: a session ends by the mark that was seen, and by no other one.
func TestExpire(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('a', 3000, 7)")
	require.Equal(t, "a|9|3000", query("SELECT * FROM renew('a', 8)"))
	require.Equal(t, "f", query("SELECT expire('a', 6)"), "it was renewed")
	require.Equal(t, "1", query("SELECT count(*) FROM session"))
	require.Equal(t, "t", query("SELECT expire('a', 9)"))
	require.Equal(t, "0", query("SELECT count(*) FROM session"))
	require.Equal(t, "t", query("SELECT expire('a', 9)"), "it is gone")
}

// The rule of open: a session whose opening was not answered is opened again.
func TestOpenTwice(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('a', 3000, 7)")
	query("SELECT open('a', 3000, 8)")
	require.Equal(t, "a|3000|8|f", query("SELECT id, ttl, mark, pause FROM session"))
}

// The rule of renew: each session looks after the eight that come after it in the ring.
func TestRing(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('s' || to_char(n, 'FM00'), 3000, n) FROM generate_series(1, 12) n")
	for id, others := range map[string]string{
		"s02": "s03 s04 s05 s06 s07 s08 s09 s10",
		"s08": "s09 s10 s11 s12 s01 s02 s03 s04",
		"s12": "s01 s02 s03 s04 s05 s06 s07 s08",
	} {
		shown := query("SELECT string_agg(id, ' ') FROM renew('" + id + "', 0)")
		require.Contains(t, shown, id+" "+others)
	}
}

// The rules of a pause: it is as long as the longest TTL of all sessions, and of those that are opened meanwhile. It
// begins anew if it becomes longer.
func TestPause(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	failsOver := func() { query("UPDATE service SET timeline = 0; SELECT hello()") }
	pauses := func() string { return query("SELECT id, ttl, mark FROM session WHERE pause ORDER BY id") }
	for _, ttl := range []string{"3000", "5000", "2000"} {
		query("SELECT open('s" + ttl + "', " + ttl + ", 7)")
	}
	require.Empty(t, pauses())
	failsOver()
	require.Equal(t, "pause 2|5000|0", pauses())
	query("SELECT open('short', 4000, 7)")
	require.Equal(t, "pause 2|5000|0", pauses())
	query("SELECT open('long', 6000, 7)")
	require.Equal(t, "pause 2|6000|1", pauses(), "with another mark, every peer counts anew")
	require.Equal(t, "5", query("SELECT count(*) FROM session WHERE mark = 7"), "no other session is changed")
	query("UPDATE service SET longest = 1000") // as the next server might have it
	failsOver()
	require.Equal(t, "pause 2|6000|1\npause 3|1000|0", pauses())
	require.Equal(t, "pause|pause 2|2|6000", query("SELECT outcome, pause, pause_mark, pause_ttl FROM enter('long', 'x', 'n', 0, 1, 'v')"),
		"the longest one, and its mark is shown with the epoch")
	query("SELECT expire('pause 2', 2)")
	require.Equal(t, "pause 3", query("SELECT pause FROM enter('long', 'x', 'n', 0, 1, 'v')"))
	query("SELECT expire('pause 3', 3)")
	require.Equal(t, "stands", query("SELECT outcome FROM enter('long', 'x', 'n', 0, 1, 'v')"))

	failsOver()
	failsOver()
	require.Equal(t, "pause 5|1000|0", pauses(), "the pauses of two failovers are one, not one after the other")
}

// The first session, or the first with a longer TTL, is lost in a failover, and with it what the longest TTL is. A rival
// with the same TTL waits that long all the same.
func TestPauseOfALostSession(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("UPDATE service SET timeline = 0; SELECT hello()")
	query("SELECT open('rival', 3000, 1)")
	require.Equal(t, "pause|3000", query("SELECT outcome, pause_ttl FROM enter('rival', 'x', 'n', 0, 1, 'v')"))
}

// The rule of hello: another cluster is a failover, too, and the same server is none. Nor is running the schema again.
func TestHello(t *testing.T) {
	t.Parallel()
	name, query := ownSchema(t)
	require.Equal(t, "1|1", query("SELECT * FROM hello()"))
	query(schemaSQL(t, name))
	require.Equal(t, "1|1", query("SELECT * FROM hello()"))
	query("UPDATE service SET cluster = 0")
	require.Equal(t, "1|2", query("SELECT * FROM hello()"))
	require.Equal(t, "1|2", query("SELECT * FROM hello()"))
	query(schemaSQL(t, name))
	require.Equal(t, "1|2", query("SELECT * FROM hello()"))
	require.Equal(t, "pause 2", query("SELECT id FROM session"))
	query("DELETE FROM session; UPDATE service SET cluster = 0, epoch = epoch + 100") // by hand, after a copy of the data
	require.Equal(t, "1|103", query("SELECT * FROM hello()"))
	require.Equal(t, "pause 103", query("SELECT id FROM session"))
	_, err := rows(soon(t), dial(t, name), "INSERT INTO service SELECT * FROM service")
	require.ErrorContains(t, err, "service_pkey", "there is one row")
}

// The rules of numbers: after a failover tokens and revisions go on above all that might have been lost. The sequence ends
// before it reaches the bits of the epoch.
func TestNumbersAfterAFailover(t *testing.T) {
	t.Parallel()
	name, query := ownSchema(t)
	query("SELECT setval('numbers', 1099511627000)")
	require.Equal(t, "1099511627001", query("SELECT number()"))
	query("UPDATE service SET timeline = 0; SELECT hello()")
	query("SELECT setval('numbers', 1, false)") // of a copy that lacks all
	require.Equal(t, "1099511627777", query("SELECT number()"))
	query("SELECT setval('numbers', (1::bigint << 40) - 1)")
	_, err := rows(soon(t), dial(t, name), "SELECT number()")
	require.ErrorContains(t, err, "reached maximum value")
}

// The rule of marks: each function that shows one shows it with the epoch. A peer has seen a mark for the TTL. The holder's
// next renewal is lost in a failover, so the mark is the same on the new primary. The holder's lease goes on, so the peer
// does not end the session by the mark that it saw before.
func TestMarkAfterAFailover(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('a', 3000, 7), open('z', 3000, 7)")
	query("SELECT enter('a', 'x', 'n', 0, 1, 'v')")
	query("SELECT acknowledge('a', 1, 1, 'v')")
	shown := func() string {
		var marks []string
		for _, from := range []string{
			"queue('x', null)", "standing('x')", "look('{1}', '{}', '{}')", "look('{}', '{x}', '{0}')",
			"renew('z', 7) WHERE id = 'a'", "renew('a', 7) WHERE id = 'z'",
		} {
			marks = append(marks, query("SELECT mark FROM "+from))
		}
		return strings.Join(marks, " ")
	}
	require.Equal(t, "6 6 6 6 6 6", shown())
	query("UPDATE service SET timeline = 0; SELECT hello()")
	require.Equal(t, "f", query("SELECT expire('a', 6)"), "the session was ended by an earlier mark")
	require.Equal(t, "5 5 5 5 5 5", shown())
	require.Equal(t, "pause", query("SELECT outcome FROM enter('a', 'y', 'second', 0, 2, 'value')"))
	require.Equal(t, "t", query("SELECT expire('a', 5)"))
}

// The rules of look: only an acknowledged entry is a leader, and the value of a leader that is known is not sent again.
func TestLook(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('a', 3000, 7)")
	query("SELECT enter('a', 'x', 'n1', 0, 1, 'v'), enter('a', 'x', 'n2', 1, 1, 'v')")
	look := func(known string) string {
		return query("SELECT token, leader, revision FROM look('{}', '{x}', '{" + known + "}')")
	}
	require.Empty(t, look("-1"))
	query("SELECT acknowledge('a', 1, 1, 'own')")
	require.Equal(t, `1|\x6f776e|3`, look("-1"))
	require.Equal(t, "1||3", look("3"))
}

// The rule of notifications: each change of an entry is told once, with "=" if the leader might have changed, and a
// cast is not told.
func TestTell(t *testing.T) {
	t.Parallel()
	name, query := ownSchema(t)
	conn, err := pgx.Connect(soon(t), dsn(t, name))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	_, err = conn.Exec(soon(t), "LISTEN "+name)
	require.NoError(t, err)
	query("SELECT open('a', 3000, 7), open('b', 3000, 8)")
	query("SELECT enter('a', 'my x', 'n1', 0, 1, 'v'), enter('a', 'my x', 'n2', 1, 1, 'v'), enter('b', 'my x', 'n3', 0, 1, 'v')")
	for _, step := range []struct {
		call string
		told []string
	}{
		{"ask('my x', 2)", []string{"-2 my x"}},
		{"ask('my x', 2)", nil},
		{"ask('another', 1)", nil},
		{"acknowledge('a', 1, 1, 'first')", []string{"=1 my x"}},
		{"ask('my x', 1)", []string{"=1 my x"}},
		{"acknowledge('a', 1, 2, 'second')", []string{"=1 my x"}},
		{"remove('a', 2)", []string{"-2 my x"}},
		{"acknowledge('b', 3, 1, 'v')", []string{"=3 my x", "=1 my x"}}, // the other one is no leader any more
		{"remove('a', 1)", []string{"-1 my x"}},
		{"close('b')", []string{"=3 my x"}},
	} {
		query("SELECT " + step.call)
		query("SELECT pg_notify('" + name + "', 'the end')")
		var told []string
		for {
			note, err := conn.WaitForNotification(soon(t))
			require.NoError(t, err)
			if note.Payload == "the end" {
				break
			}
			told = append(told, note.Payload)
		}
		require.Equal(t, step.told, told, step.call)
	}
}

// The rule of queue: the ballots of the election are in the order of their tokens.
func TestQueue(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('b', 3000, 7), open('a', 4000, 8)")
	query("SELECT enter('b', 'x', 'n1', 0, 1, 'first'), enter('a', 'x', 'n2', 0, 1, 'second'), enter('a', 'y', 'n3', 1, 1, 'v')")
	query("SELECT ask('x', 2)")
	const all = "SELECT token, session, nonce, convert_from(value, 'UTF8'), resign, mark, ttl FROM queue('x', "
	require.Equal(t, "1|b|n1|first|f|6|3000\n2|a|n2|second|t|9|4000", query(all+"null)"))
	require.Equal(t, "1|b|n1|first|f|6|3000", query(all+"1)"))
	query("SELECT acknowledge('a', 2, 1, 'v')") // which moves the row within the table
	require.Equal(t, "1|b|n1|first|f|6|3000", query(all+"1)"))
}

// The rule of standing: the ballots are those of queue, with the time since each session was renewed, which a session of
// an earlier release does not tell. So also in a schema that an earlier release has made.
func TestStanding(t *testing.T) {
	t.Parallel()
	name, query := ownSchema(t)
	query("SELECT open('b', 3000, 7), open('a', 4000, 8), open('c', 4000, 9), open('d', 4000, 9)")
	query("SELECT enter('b', 'x', 'n1', 0, 1, 'v'), enter('a', 'x', 'n2', 0, 1, 'v'), enter('c', 'x', 'n3', 0, 1, 'v'), enter('d', 'x', 'n4', 0, 1, 'v')")
	standing := func() string {
		return query("SELECT token, CASE WHEN silence < 60000 THEN 'renewed' ELSE silence / 60000 || ' min' END FROM standing('x') " +
			"WHERE (token, session, nonce, value, resign, mark, ttl) IN (SELECT * FROM queue('x', null))")
	}
	require.Equal(t, "1|renewed\n2|renewed\n3|renewed\n4|renewed", standing())
	query("UPDATE session SET renewed = CASE id WHEN 'a' THEN now() - interval '5.5 min' WHEN 'c' THEN now() + interval '1 day' END")
	require.Equal(t, "1|\n2|5 min\n3|renewed\n4|", standing(), "the clock was set back since c was renewed")
	query("SELECT renew('a', 3), open('d', 4000, 4)")
	require.Equal(t, "1|\n2|renewed\n3|renewed\n4|renewed", standing())

	query("ALTER TABLE session DROP COLUMN renewed CASCADE")
	query("SET search_path = public; " + schemaSQL(t, name) + "; SET search_path = " + name)
	require.Equal(t, "1|\n2|\n3|\n4|", standing())
	query("SELECT renew('b', 3)")
	require.Equal(t, "1|renewed\n2|\n3|\n4|", standing())
}

// The rules of proofs: what was proved counts for the same mark alone, the least that is left counts, and a renewal, a
// failover and a start of the server clear it.
func TestProve(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('a', 9000, 6), open('b', 9000, 6)")
	query("SELECT enter('a', 'x', 'n', 0, 1, 'v')")
	query("SELECT acknowledge('a', 1, 1, 'v')")
	prove := func(id, mark, rest string) { query("SELECT prove('{" + id + "}', '{" + mark + "}', '{" + rest + "}')") }
	shown := func() string {
		var left []string
		for _, from := range []string{
			"queue('x', null)", "standing('x')", "look('{1}', '{}', '{}')", "look('{}', '{x}', '{0}')", "renew('b', 7) WHERE id = 'a'",
		} {
			left = append(left, query("SELECT ttl FROM "+from))
		}
		return strings.Join(left, " ")
	}
	const none = "9000 9000 9000 9000 9000"
	require.Equal(t, none, shown())
	prove("a", "8", "5000") // the mark is 6, shown as 7
	require.Equal(t, none, shown(), "of another mark")
	prove("a", "7", "5000")
	prove("a,b,c", "7,1,1", "6000,6000,6000") // of a process that came later
	require.Equal(t, "5000 5000 5000 5000 5000", shown())
	require.Equal(t, "9000", query("SELECT ttl FROM renew('a', 9) WHERE id = 'b'"))
	require.Equal(t, none, shown(), "it was renewed")
	prove("a", "7", "4000")
	require.Equal(t, none, shown(), "the mark has changed")
	prove("a", "8", "8000")
	require.Equal(t, "8000 8000 8000 8000 8000", shown(), "what was proved of another mark does not stay")
	query("UPDATE silence SET server = server - interval '1 s'")
	require.Equal(t, none, shown(), "the server has started again: the data might be an older copy")
	prove("a", "8", "7000")
	query("UPDATE service SET timeline = 0; SELECT hello()")
	require.Equal(t, none, shown(), "the server has failed over: renewals might be lost")
	prove("a,pause 2", "11,2", "3000,2000")
	require.Equal(t, "3000 3000 3000 3000 3000", shown())
	require.Equal(t, "pause|2000", query("SELECT outcome, pause_ttl FROM enter('a', 'y', 'second', 0, 2, 'value')"), "a pause ends so, too")
	query("SELECT open('d', 99000, 1)")
	require.Equal(t, "99000", query("SELECT pause_ttl FROM enter('a', 'y', 'second', 0, 2, 'value')"), "it has become longer")
	query("SELECT close('a')")
	prove("b", "0", "1")
	require.Equal(t, "pause 2", query("SELECT session FROM silence"), "what was proved goes with its session")
}

// The rule of the ring: a session looks after eight others that are renewed, and after all between them that are not.
func TestRingOfManyDead(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open(chr(96 + n), 300000, n) FROM generate_series(1, 20) n")
	ring := func(id string) string {
		return query("SELECT string_agg(id, '' ORDER BY n) FROM renew('" + id + "', 7) WITH ORDINALITY r (id, mark, ttl, n)")
	}
	require.Equal(t, "cdefghijk", ring("c"))
	require.Equal(t, "rstabcdef", ring("r"))
	query("UPDATE session SET renewed = now() - interval '60 s'")
	require.Equal(t, "cdefghijk", ring("c"), "the others are not late yet")
	query("UPDATE session SET renewed = now() - interval '90 s'")
	require.Equal(t, "pqrstabcdefghijklmno", ring("p"))
	require.Equal(t, "cdefghijklmnopqrstab", ring("c"), "two are renewed: p, and c itself")
	query("UPDATE session SET renewed = NULL")
	require.Equal(t, "cdefghijk", ring("c"), "whether they are late is not known")
}

// The rules of prefixes: the elections whose names begin so are listed, each once, and cleared, with no other one.
func TestElectionsOfAPrefix(t *testing.T) {
	t.Parallel()
	_, query := ownSchema(t)
	query("SELECT open('a', 3000, 7)")
	for i, election := range []string{"app/x", "app/x", "app/y", "ap", "app", "a%/x"} {
		query("SELECT enter('a', '" + election + "', 'n" + string(rune('0'+i)) + "', " + string(rune('0'+i)) + ", 1, 'v')")
	}
	elections := func(prefix string) string {
		return query("SELECT string_agg(e, ' ' ORDER BY e) FROM elections('" + prefix + "') e")
	}
	require.Equal(t, "app/x app/y", elections("app/"))
	require.Equal(t, "a%/x", elections("a%/"), "a prefix is no pattern")
	require.Equal(t, "a%/x ap app app/x app/y", elections(""))
	query("SELECT clear('app/x', 'app/')")
	require.Equal(t, "a%/x ap app app/y", elections(""))
	query("SELECT clear(null, 'app/')")
	require.Equal(t, "a%/x ap app", elections(""))
	query("SELECT clear(null, '')")
	require.Empty(t, elections(""))
}
