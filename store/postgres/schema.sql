-- Elections of github.com/go-leadership/leadership, layout 1, in the schema {schema}.
--
-- The first candidate that may create a schema runs this, with its own role as the owner. Where candidates may not, run
-- it once in the database, as the role that is to own the schema, which should be no superuser. Running it again changes
-- nothing.
--
-- Each change is one call of one function, so no client ever holds a lock while it waits for a network. All functions
-- run with the rights of the owner: candidates and followers need no right on a table. At the end is what they need.
-- search_path names pg_temp, since PostgreSQL otherwise looks for types in the caller's temporary schema first.

BEGIN;
DO $$ BEGIN PERFORM pg_advisory_xact_lock(1818584164, hashtext('{schema}')); END $$;

CREATE SCHEMA IF NOT EXISTS {schema};

-- One row. cluster and timeline are those of the server that the last change of epoch was made on.
CREATE TABLE IF NOT EXISTS {schema}.service (
	layout   int    NOT NULL,
	cluster  bigint NOT NULL,
	timeline bigint NOT NULL,
	epoch    bigint NOT NULL, -- goes up each time that the server might have lost transactions; not below timeline
	longest  bigint NOT NULL, -- the longest ttl of a session so far, in ms
	one      bool   PRIMARY KEY DEFAULT true CHECK (one)
);

CREATE SEQUENCE IF NOT EXISTS {schema}.numbers MAXVALUE 1099511627775;

-- A session stands while the row does. Its holder sets another mark again and again; a peer that has seen a mark stand
-- for the ttl deletes the row if the mark is the same. A failover might lose a renewal, and so bring an earlier mark back.
-- So a mark is shown combined with the epoch, and every peer counts anew.
CREATE TABLE IF NOT EXISTS {schema}.session (
	id    text    PRIMARY KEY,
	ttl   bigint  NOT NULL, -- in ms
	mark  bigint  NOT NULL, -- random
	pause boolean NOT NULL, -- it is of no process: while the row is there, no ballot is cast
	renewed timestamptz     -- when mark was set last, for people; null if an earlier release has set it
);
DO $$ BEGIN
	IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = '{schema}.session'::regclass AND attname = 'renewed') THEN
		ALTER TABLE {schema}.session ADD renewed timestamptz; -- which an earlier release has made
	END IF;
END $$;

-- What peers have proved of sessions: how long a mark, as it is shown, still has to stand. It adds up, so processes that
-- come and go end a session together. It counts for the same mark alone, and until the server starts again: an older
-- copy of the data might bring a mark back. The table is unlogged: it is empty after a crash and on another server,
-- and a commit waits for no disk or standby.
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.silence (
	session text        PRIMARY KEY, -- which might have ended
	mark    bigint      NOT NULL,
	server  timestamptz NOT NULL, -- when it was started
	rest    bigint      NOT NULL  -- in ms
);

-- Sessions as they are shown. ttl is how long the mark still has to stand, and late a hint, by the server's own clock, that
-- the holder does not renew the session.
CREATE OR REPLACE VIEW {schema}.shown AS
	SELECT s.id, s.mark # v.epoch AS mark, coalesce(p.rest, s.ttl) AS ttl, s.pause, s.renewed,
			coalesce(s.renewed < clock_timestamp() - s.ttl * interval '0.25 ms', false) AS late
		FROM {schema}.session s CROSS JOIN {schema}.service v LEFT JOIN {schema}.silence p
			ON p.session = s.id AND p.mark = s.mark # v.epoch AND p.server = pg_postmaster_start_time();

-- For a slot of a session: casts up to this turn are void.
CREATE TABLE IF NOT EXISTS {schema}.void (
	session text   NOT NULL REFERENCES {schema}.session ON DELETE CASCADE,
	slot    int    NOT NULL,
	turn    bigint NOT NULL,
	PRIMARY KEY (session, slot)
);

-- A ballot, and its acknowledgement. The ballots of an election are in the order of their tokens.
CREATE TABLE IF NOT EXISTS {schema}.entry (
	token    bigint  PRIMARY KEY,
	election text    NOT NULL,
	session  text    NOT NULL REFERENCES {schema}.session ON DELETE CASCADE,
	nonce    text    NOT NULL UNIQUE,
	value    bytea   NOT NULL,
	resign   boolean NOT NULL DEFAULT false, -- an operator has asked the leader to resign
	turn     bigint  NOT NULL DEFAULT 0,     -- of the last acknowledgement
	leader   bytea,                          -- the acknowledged value
	revision bigint                          -- of that
);
CREATE UNIQUE INDEX IF NOT EXISTS entry_queue ON {schema}.entry (election, token);
CREATE INDEX IF NOT EXISTS entry_session ON {schema}.entry (session);
CREATE INDEX IF NOT EXISTS entry_leader ON {schema}.entry (election) WHERE revision IS NOT NULL;

-- The acknowledged leaders, for SQL: WHERE election = '...'. A dead one is here until another candidate or a watching
-- program has ended its session.
CREATE OR REPLACE VIEW {schema}.leader AS
	SELECT election, leader AS value, token, revision FROM {schema}.entry WHERE revision IS NOT NULL;

-- Notifications say which entry of which election has changed, and whether the leader might have.
CREATE OR REPLACE FUNCTION {schema}.tell() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM pg_notify('{schema}', CASE WHEN OLD.revision IS NULL AND (TG_OP = 'DELETE' OR NEW.revision IS NULL)
		THEN '-' ELSE '=' END || OLD.token || ' ' || OLD.election);
	RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER tell AFTER UPDATE OR DELETE ON {schema}.entry
	FOR EACH ROW EXECUTE FUNCTION {schema}.tell();

-- number returns the next token or revision. It is never below an earlier one: the epoch goes up when the sequence might
-- have gone back.
CREATE OR REPLACE FUNCTION {schema}.number() RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RETURN (SELECT ((epoch - 1) << 40) | nextval('{schema}.numbers') FROM {schema}.service);
END $$;

-- hello is the first call on each connection. On another cluster or timeline than the last one, transactions might have
-- been lost. Then no ballot is cast until every lease that might have been lost has ended: for the longest ttl.
CREATE OR REPLACE FUNCTION {schema}.hello(OUT layout int, OUT epoch bigint)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	here_cluster  bigint := (SELECT system_identifier FROM pg_control_system());
	here_timeline bigint := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
BEGIN
	UPDATE {schema}.service SET cluster = here_cluster, timeline = here_timeline, epoch = greatest(epoch + 1, here_timeline)
		WHERE (cluster, timeline) IS DISTINCT FROM (here_cluster, here_timeline);
	IF FOUND THEN
		DELETE FROM {schema}.session s USING {schema}.service v WHERE s.pause AND s.ttl <= v.longest; -- the new one is as long
		INSERT INTO {schema}.session SELECT 'pause ' || s.epoch, s.longest, 0, true FROM {schema}.service s;
	END IF;
	SELECT s.layout, s.epoch INTO layout, epoch FROM {schema}.service s;
END $$;

-- open opens a session, or renews one whose opening was not answered. The server might have lost what the longest ttl was.
-- So a pause becomes as long as the ttl of each session that is opened meanwhile, and every peer counts anew.
CREATE OR REPLACE FUNCTION {schema}.open(for_id text, for_ttl bigint, for_mark bigint) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	UPDATE {schema}.service SET longest = for_ttl WHERE longest < for_ttl;
	UPDATE {schema}.session SET ttl = for_ttl, mark = mark + 1 WHERE pause AND ttl < for_ttl;
	INSERT INTO {schema}.session VALUES (for_id, for_ttl, for_mark, false, clock_timestamp())
		ON CONFLICT (id) DO UPDATE SET mark = for_mark, renewed = clock_timestamp();
END $$;

-- renew sets the mark of a session, and returns the session with those that come after it in the ring of all, which it
-- looks after: up to the eighth that is not late, of two hundred. If it returns nothing, the session has ended.
CREATE OR REPLACE FUNCTION {schema}.renew(for_id text, for_mark bigint) RETURNS TABLE (id text, mark bigint, ttl bigint)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	seen   {schema}.shown;
	others int := -1; -- which are not late: the first is the session itself
BEGIN
	UPDATE {schema}.session SET mark = for_mark, renewed = clock_timestamp() WHERE id = for_id;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	FOR seen IN (SELECT * FROM {schema}.shown WHERE id >= for_id ORDER BY id LIMIT 100)
			UNION ALL (SELECT * FROM {schema}.shown WHERE id < for_id ORDER BY id LIMIT 100) LOOP
		id := seen.id;
		mark := seen.mark;
		ttl := seen.ttl;
		RETURN NEXT;
		IF NOT seen.late THEN
			others := others + 1;
			EXIT WHEN others = 8;
		END IF;
	END LOOP;
END $$;

-- expire ends a session if it has this mark, and returns whether the session is gone.
CREATE OR REPLACE FUNCTION {schema}.expire(for_id text, for_mark bigint) RETURNS boolean
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	DELETE FROM {schema}.session s USING {schema}.service v WHERE s.id = for_id AND s.mark # v.epoch = for_mark;
	RETURN NOT EXISTS (SELECT FROM {schema}.session WHERE id = for_id);
END $$;

-- prove notes for how long marks still have to stand, of the sessions that have these marks. The least counts.
CREATE OR REPLACE FUNCTION {schema}.prove(for_ids text[], for_marks bigint[], for_rests bigint[]) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	DELETE FROM {schema}.silence WHERE session IN (SELECT p.session FROM {schema}.silence p
		WHERE NOT EXISTS (SELECT FROM {schema}.session s WHERE s.id = p.session) FOR UPDATE SKIP LOCKED);
	INSERT INTO {schema}.silence AS p SELECT s.id, s.mark, pg_postmaster_start_time(), f.rest
		FROM unnest(for_ids, for_marks, for_rests) f (id, mark, rest) JOIN {schema}.shown s ON s.id = f.id AND s.mark = f.mark
		ORDER BY s.id
		ON CONFLICT (session) DO UPDATE SET mark = EXCLUDED.mark, server = EXCLUDED.server, rest = CASE
			WHEN (p.mark, p.server) = (EXCLUDED.mark, EXCLUDED.server) THEN least(p.rest, EXCLUDED.rest) ELSE EXCLUDED.rest END;
END $$;

-- close ends a session.
CREATE OR REPLACE FUNCTION {schema}.close(for_id text) RETURNS void
	LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	DELETE FROM {schema}.session WHERE id = for_id
$$;

-- enter makes the entry of a nonce, if there is none yet, and returns what is ahead of it. The lock is held until the
-- commit. So an entry that becomes visible after another of its election has a higher token. What is ahead is read by a
-- statement after that: this needs READ COMMITTED.
CREATE OR REPLACE FUNCTION {schema}.enter(for_session text, for_election text, for_nonce text, for_slot int, for_turn bigint,
	for_value bytea, OUT outcome text, OUT token bigint, OUT nearest bigint, OUT more boolean,
	OUT pause text, OUT pause_mark bigint, OUT pause_ttl bigint)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION 'leadership needs the isolation level read committed'; -- else two candidates lead
	END IF;
	PERFORM pg_advisory_xact_lock(hashtext('{schema}'), hashtext(for_election));
	PERFORM FROM {schema}.session WHERE id = for_session FOR KEY SHARE;
	IF NOT FOUND THEN
		outcome := 'over';
		RETURN;
	END IF;
	SELECT e.token INTO token FROM {schema}.entry e WHERE e.nonce = for_nonce;
	IF NOT FOUND THEN
		IF EXISTS (SELECT FROM {schema}.void v WHERE v.session = for_session AND v.slot = for_slot AND v.turn >= for_turn) THEN
			outcome := 'void';
			RETURN;
		END IF;
		SELECT s.id, s.mark, s.ttl INTO pause, pause_mark, pause_ttl FROM {schema}.shown s WHERE s.pause ORDER BY s.ttl DESC LIMIT 1;
		IF FOUND THEN
			outcome := 'pause';
			RETURN;
		END IF;
		token := {schema}.number();
		INSERT INTO {schema}.entry (token, election, session, nonce, value)
			VALUES (token, for_election, for_session, for_nonce, for_value);
	END IF;
	outcome := 'stands';
	SELECT a.nearest, a.more INTO nearest, more FROM {schema}.ahead(for_election, token) a;
END $$;

-- ahead returns what is ahead of an entry. If nearest is null, there is nothing. This function and the others that read are
-- in plpgsql, which keeps their plans, and STABLE: all that one call reads is of one snapshot.
CREATE OR REPLACE FUNCTION {schema}.ahead(for_election text, for_token bigint, OUT stands boolean, OUT nearest bigint, OUT more boolean)
	LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	SELECT EXISTS (SELECT FROM {schema}.entry e WHERE e.token = for_token), max(a.token), count(*) > 1 INTO stands, nearest, more
		FROM (SELECT e.token FROM {schema}.entry e WHERE e.election = for_election AND e.token < for_token
			ORDER BY e.token DESC LIMIT 2) a;
END $$;

-- void removes the entry of a nonce, and keeps requests that are on their way from making one. It takes the lock of enter,
-- so one of the two sees what the other has done.
CREATE OR REPLACE FUNCTION {schema}.void(for_session text, for_election text, for_nonce text, for_slot int, for_turn bigint)
	RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM pg_advisory_xact_lock(hashtext('{schema}'), hashtext(for_election));
	PERFORM FROM {schema}.session WHERE id = for_session FOR KEY SHARE;
	IF NOT FOUND THEN
		RETURN 'over';
	END IF;
	INSERT INTO {schema}.void AS v VALUES (for_session, for_slot, for_turn)
		ON CONFLICT (session, slot) DO UPDATE SET turn = greatest(v.turn, EXCLUDED.turn);
	DELETE FROM {schema}.entry WHERE nonce = for_nonce;
	RETURN 'done';
END $$;

-- acknowledge makes a value that of the election's leader, if the entry stands and no later acknowledgement was made.
CREATE OR REPLACE FUNCTION {schema}.acknowledge(for_session text, for_token bigint, for_turn bigint, for_value bytea,
	OUT outcome text, OUT revision bigint)
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	last_turn    bigint;
	for_election text;
BEGIN
	SELECT turn, election INTO last_turn, for_election FROM {schema}.entry e
		WHERE token = for_token AND session = for_session FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		outcome := CASE WHEN EXISTS (SELECT FROM {schema}.session WHERE id = for_session) THEN 'gone' ELSE 'over' END;
		RETURN;
	ELSIF last_turn >= for_turn THEN
		outcome := 'late';
		RETURN;
	END IF;
	outcome := 'done';
	revision := {schema}.number();
	UPDATE {schema}.entry e SET leader = for_value, revision = acknowledge.revision, turn = for_turn WHERE token = for_token;
	UPDATE {schema}.entry e SET leader = NULL, revision = NULL -- of an entry that came back with a copy of the data
		WHERE election = for_election AND e.revision IS NOT NULL AND token <> for_token;
END $$;

-- remove removes an entry with its acknowledgement.
CREATE OR REPLACE FUNCTION {schema}.remove(for_session text, for_token bigint) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	DELETE FROM {schema}.entry WHERE token = for_token AND session = for_session;
END $$;

-- fence makes the transaction that calls it fail if the entry has gone, and keeps the entry until the transaction ends. The
-- client must not stand still for long meanwhile, since the successor waits: one timeout is for a client that sends nothing,
-- one for a client that does not read what the server sends.
CREATE OR REPLACE FUNCTION {schema}.fence(for_session text, for_token bigint) RETURNS void
	LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	idle bigint := extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000;
	tcp  bigint := current_setting('tcp_user_timeout');
	most bigint;
BEGIN
	SELECT s.ttl / 4 INTO most FROM {schema}.entry e JOIN {schema}.session s ON s.id = e.session
		WHERE e.token = for_token AND e.session = for_session FOR KEY SHARE OF e;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'the ballot with the token % has gone: the term is over', for_token USING ERRCODE = 'LD001';
	END IF;
	PERFORM set_config('idle_in_transaction_session_timeout', least(most, nullif(idle, 0))::text, true);
	PERFORM set_config('tcp_user_timeout', least(most, nullif(tcp, 0))::text, true);
END $$;

-- look returns the entries with these tokens and the leaders of these elections, with the marks of their sessions. The
-- value of a leader whose revision is known is left out.
CREATE OR REPLACE FUNCTION {schema}.look(for_tokens bigint[], for_elections text[], known bigint[])
	RETURNS TABLE (token bigint, election text, session text, nonce text, resign boolean, leader bytea, revision bigint, mark bigint, ttl bigint)
	LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
	SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off AS $$ -- or it is planned at each call
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT e.token, e.election, e.session, e.nonce, e.resign, NULL::bytea, NULL::bigint, s.mark, s.ttl
		FROM unnest(for_tokens) t JOIN {schema}.entry e ON e.token = t JOIN {schema}.shown s ON s.id = e.session;
	RETURN QUERY SELECT e.token, e.election, e.session, e.nonce, e.resign, CASE WHEN e.revision <> f.known THEN e.leader END,
			e.revision, s.mark, s.ttl
		FROM unnest(for_elections, known) f (election, known)
		JOIN {schema}.entry e ON e.election = f.election AND e.revision IS NOT NULL JOIN {schema}.shown s ON s.id = e.session;
END $$;

-- queue returns the ballots of an election, the first in line first.
CREATE OR REPLACE FUNCTION {schema}.queue(for_election text, most bigint)
	RETURNS TABLE (token bigint, session text, nonce text, value bytea, resign boolean, mark bigint, ttl bigint)
	LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT e.token, e.session, e.nonce, e.value, e.resign, s.mark, s.ttl
		FROM {schema}.entry e JOIN {schema}.shown s ON s.id = e.session
		WHERE e.election = for_election ORDER BY e.token LIMIT most;
END $$;

-- standing returns the ballots of an election as queue does, and for how long, in ms, their sessions have not been renewed.
-- Releases that know only queue go on with that.
CREATE OR REPLACE FUNCTION {schema}.standing(for_election text)
	RETURNS TABLE (token bigint, session text, nonce text, value bytea, resign boolean, mark bigint, ttl bigint, silence bigint)
	LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT e.token, e.session, e.nonce, e.value, e.resign, s.mark, s.ttl,
			CASE WHEN s.renewed IS NOT NULL THEN greatest(0, extract(epoch FROM clock_timestamp() - s.renewed) * 1000)::bigint END
		FROM {schema}.entry e JOIN {schema}.shown s ON s.id = e.session
		WHERE e.election = for_election ORDER BY e.token;
END $$;

-- elections returns the elections with ballots whose names begin so.
CREATE OR REPLACE FUNCTION {schema}.elections(prefix text) RETURNS SETOF text
	LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	SELECT DISTINCT election FROM {schema}.entry WHERE starts_with(election, prefix)
$$;

-- ask asks the leader with this token to resign.
CREATE OR REPLACE FUNCTION {schema}.ask(for_election text, for_token bigint) RETURNS void
	LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	UPDATE {schema}.entry SET resign = true WHERE token = for_token AND election = for_election AND NOT resign
$$;

-- clear removes the ballots of an election, or of all elections whose names begin so.
CREATE OR REPLACE FUNCTION {schema}.clear(for_election text, prefix text) RETURNS void
	LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	DELETE FROM {schema}.entry WHERE election = for_election OR for_election IS NULL AND starts_with(election, prefix)
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;

INSERT INTO {schema}.service
	SELECT 1, system_identifier, timeline, timeline, 0 -- at least: programs that know a later epoch refuse a lower one
	FROM pg_control_system(), CAST(('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32) AS bigint) timeline
	WHERE NOT EXISTS (SELECT FROM {schema}.service);

COMMIT;

-- Rights, for roles of their own. Create the roles first.
--
-- Candidates:
--   GRANT USAGE ON SCHEMA {schema} TO leadership_candidate;
--   GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO leadership_candidate;
--
-- Followers:
--   GRANT USAGE ON SCHEMA {schema} TO leadership_follower;
--   GRANT EXECUTE ON FUNCTION {schema}.hello, {schema}.look, {schema}.queue, {schema}.standing, {schema}.ahead, {schema}.elections TO leadership_follower;
--
-- Programs that only read the view of the leaders:
--   GRANT USAGE ON SCHEMA {schema} TO some_role;
--   GRANT SELECT ON {schema}.leader TO some_role;
--
-- Programs that only write with postgres.Fence:
--   GRANT USAGE ON SCHEMA {schema} TO some_role;
--   GRANT EXECUTE ON FUNCTION {schema}.fence TO some_role;
