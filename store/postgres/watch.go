package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/jackc/pgx/v5"
)

// watch is one of the engine's watches: of an entry, or of the leader of an election. Only the goroutine attend uses
// it, except where the comment says mu.
type watch struct {
	token    int64  // of the entry; 0: the leader is watched
	election string // guarded by mu: of an entry it is known after the first read
	nonce    string // of the entry, once that is known
	tell     engine.Tell
	set      chan error    // has room for one: how the first read went
	told     *engine.State // the last
}

// watches are those of a driver, and what has to be read for them. The driver's mu guards them.
//
// A notification is only a hint: any role of the database may send one. It makes attend read all that this driver
// watches of that election, in one statement.
type watches struct {
	list      map[string]map[*watch]struct{} // by election; those whose election is not known are in ""
	fresh     []*watch                       // have not been read yet
	notes     []string                       // notifications that have not been looked at
	all       bool                           // everything has to be read
	confirmed []chan error                   // has room for one: callers of Confirm
}

func newWatches() watches { return watches{list: map[string]map[*watch]struct{}{}} }

func (ws *watches) add(w *watch) {
	if ws.list[w.election] == nil {
		ws.list[w.election] = map[*watch]struct{}{}
	}
	ws.list[w.election][w] = struct{}{}
}

func (ws *watches) drop(w *watch) {
	delete(ws.list[w.election], w)
	if len(ws.list[w.election]) == 0 {
		delete(ws.list, w.election)
	}
}

// WatchEntry implements engine.Driver.
func (d *driver) WatchEntry(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
	return d.watch(ctx, &watch{token: token(key), tell: tell})
}

// WatchLeader implements engine.Driver.
func (d *driver) WatchLeader(ctx context.Context, election string, tell engine.Tell) (engine.Watch, error) {
	return d.watch(ctx, &watch{election: d.name(election), tell: tell})
}

// watch sets a watch, and waits until it has been read, which might be alone. From then on all that is watched of the
// election is read in one statement, and the entry that is last in the queue is told first. So all watches are of one
// stream.
func (d *driver) watch(ctx context.Context, w *watch) (engine.Watch, error) {
	d.begin()
	w.set = make(chan error, 1)
	d.mu.Lock()
	d.watches.add(w)
	d.watches.fresh = append(d.watches.fresh, w)
	d.link.wake()
	d.mu.Unlock()
	stop := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.watches.drop(w)
	}
	err := wait(ctx, w.set)
	if err != nil {
		stop()
		return engine.Watch{}, err
	}
	d.forgetEntries(func(token int64, _ entered) bool { return token == w.token })
	return engine.Watch{Stream: 1, Stop: stop}, nil
}

// Confirm implements engine.Driver: everything that is watched is read.
func (d *driver) Confirm(ctx context.Context) error {
	d.begin()
	done := make(chan error, 1)
	d.mu.Lock()
	d.watches.all = true
	d.watches.confirmed = append(d.watches.confirmed, done)
	d.link.wake()
	d.mu.Unlock()
	return wait(ctx, done)
}

// wait waits for the answer that attend gives.
func wait(ctx context.Context, done <-chan error) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}

// batch is what one look reads.
type batch struct {
	list      []*watch
	fresh     []*watch // of those in list
	all       bool
	confirmed []chan error
	over      bool // the watches in list end
}

func (b *batch) empty() bool { return len(b.list) == 0 && !b.all && len(b.confirmed) == 0 && !b.over }

// next takes what has to be read. After a failover of the server the watches of leaders end first: they might go back.
func (d *driver) next() *batch {
	d.mu.Lock()
	defer d.mu.Unlock()
	ws := &d.watches
	b := &batch{all: ws.all, confirmed: ws.confirmed, over: d.over}
	if d.over {
		ws.all, d.over = true, false
		for _, set := range ws.list {
			for w := range set {
				if w.token == 0 {
					b.list = append(b.list, w)
				}
			}
		}
		for _, w := range b.list {
			ws.drop(w)
		}
		ws.fresh = slices.DeleteFunc(ws.fresh, func(w *watch) bool { return w.token == 0 }) // they are answered by end
		return b
	}
	elections := map[string]bool{}
	for _, note := range ws.notes {
		if election, ok := ws.wants(note); ok {
			elections[election] = true
		}
	}
	for election, set := range ws.list {
		for w := range set {
			if b.all || elections[election] || slices.Contains(ws.fresh, w) {
				b.list = append(b.list, w)
			}
		}
	}
	for _, w := range ws.fresh {
		if _, there := ws.list[w.election][w]; there {
			b.fresh = append(b.fresh, w)
		}
	}
	ws.notes, ws.all, ws.confirmed, ws.fresh = nil, false, nil, nil
	return b
}

// wants reports whether a notification is about something that is watched, and of which election. The caller holds mu.
// A notification is "-" or "=", a token, a space and an election; with "=" the leader might have changed.
func (ws *watches) wants(note string) (election string, ok bool) {
	text, election, _ := strings.Cut(note, " ")
	if text == "" {
		return "", false
	}
	token, _ := strconv.ParseInt(text[1:], 10, 64)
	for w := range ws.list[election] {
		if w.token == token || w.token == 0 && text[0] == '=' {
			return election, true
		}
	}
	return "", false
}

// lookRow is a row of the function look. Of an entry's row Revision is nil.
type lookRow struct {
	Token    int64
	Election string
	Session  string
	Nonce    string
	Resign   bool
	Leader   []byte
	Revision *int64
	Mark     int64
	TTL      int64
}

// look reads a batch, and tells what has changed. If there was no answer, what was to be read is still to be read, and
// the callers that wait get the error.
func (d *driver) look(conn *pgx.Conn, b *batch) error {
	if b.over {
		for _, w := range b.list {
			w.end()
		}
		return nil
	}
	tokens, elections, known := b.wanted()
	// The client library makes the name of a prepared statement of the text. Behind a pooler another process might have
	// prepared one on the same connection of the server. So the text has the connection's name.
	sql := d.call("look($1, $2, $3) -- ") + greetingOf(conn.PgConn()).name
	limit, greeting := d.patience, greetingOf(conn.PgConn())
	if !greeting.looked { // it takes two round trips, and reads everything
		limit = d.config.limit()
	}
	sent := time.Now()
	rows, err := send[lookRow](d, conn, limit, sql, pgx.QueryExecModeCacheStatement, tokens, elections, known)
	greeting.looked = true
	d.listens(conn, sent)
	noSchema := err == errNoSchema
	if noSchema {
		rows, err = nil, nil
	}
	if err == nil {
		d.show(b, rows, sent)
		if b.all && !noSchema {
			d.mu.Lock()
			if epoch := greetingOf(conn.PgConn()).epoch; epoch != d.readEpoch {
				d.readEpoch = epoch
				select {
				case d.reread <- struct{}{}:
				default:
				}
			}
			d.readAt = time.Now()
			d.mu.Unlock()
		}
	}
	b.answer(err)
	return err
}

// answer tells the callers that wait how it went.
func (b *batch) answer(err error) {
	for _, w := range b.fresh {
		w.set <- err
	}
	for _, done := range b.confirmed {
		done <- err
	}
}

// wanted returns what a batch reads: the tokens of entries, and the elections, with the revision that all watches of
// the election know; -1 if there is none.
func (b *batch) wanted() (tokens []int64, elections []string, known []int64) {
	tokens = []int64{}
	revisions := map[string]int64{}
	for _, w := range b.list {
		revision, other := revisions[w.election]
		switch {
		case w.token != 0:
			tokens = append(tokens, w.token)
		case !other || revision == w.revision():
			revisions[w.election] = w.revision()
		default:
			revisions[w.election] = -1
		}
	}
	elections, known = []string{}, []int64{}
	for election, revision := range revisions {
		elections, known = append(elections, election), append(known, revision)
	}
	return tokens, elections, known
}

// show notes the marks that an answer shows, and tells the watches of a batch what is new to them.
func (d *driver) show(b *batch, rows []lookRow, sent time.Time) {
	now := time.Now()
	entries, leaders := map[int64]*lookRow{}, map[string]*lookRow{}
	for i := range rows {
		r := &rows[i]
		switch dead := d.note(r.Session, r.Mark, r.TTL, now); {
		case r.Revision == nil: // it stands while its row does, even if its holder is dead: the holder might come back
			entries[r.Token] = r
		case !dead:
			leaders[r.Election] = r
		}
	}
	d.mu.Lock()
	if b.all {
		for _, p := range d.marks {
			p.watched = false
		}
	}
	for _, r := range rows {
		if p := d.marks[r.Session]; p != nil {
			p.watched = true
		}
	}
	gone := map[*watch]bool{}
	for _, w := range b.list {
		r := entries[w.token]
		if r != nil && d.isAnother(w, r) {
			gone[w] = true
			continue
		}
		if r != nil && w.election == "" {
			if _, there := d.watches.list[""][w]; there {
				d.watches.drop(w)
				w.election = r.Election
				d.watches.add(w)
			}
		}
	}
	d.mu.Unlock()
	slices.SortFunc(b.list, func(v, w *watch) int { return cmp.Compare(w.token, v.token) })
	for _, w := range b.list {
		switch {
		case gone[w]:
			w.showEntry(nil)
		case w.token != 0:
			w.showEntry(entries[w.token])
		default:
			w.showLeader(leaders[w.election], sent)
		}
	}
}

// isAnother reports whether an entry only has the token of the one that is watched. An older copy of the data might have
// come back, and have given the token out again. The caller holds the driver's mu.
func (d *driver) isAnother(w *watch, r *lookRow) bool {
	if w.nonce == "" {
		w.nonce = r.Nonce
		if own, ok := d.unwatched[w.token]; ok {
			w.nonce = own.nonce
		}
	}
	return w.nonce != r.Nonce
}

// showEntry tells what was read of an entry, if it is new. r is nil if the entry has gone.
func (w *watch) showEntry(r *lookRow) {
	s := &engine.State{}
	if r != nil {
		s = &engine.State{Token: uint64(r.Token), Session: r.Session, Nonce: r.Nonce, Resign: r.Resign}
	}
	if w.told == nil || *w.told != *s {
		w.told = s
		w.tell(engine.News{State: s})
	}
}

// showLeader tells what was read of an election. r is nil if there is no leader.
func (w *watch) showLeader(r *lookRow, sent time.Time) {
	s := &engine.State{}
	switch {
	case r == nil:
	case *r.Revision == w.revision():
		w.tell(engine.News{AsOf: sent})
		return
	default:
		s.Leader = store.Leader{Value: string(r.Leader), Revision: uint64(*r.Revision)}
	}
	if w.told != nil && *w.told == *s {
		w.tell(engine.News{AsOf: sent})
		return
	}
	w.told = s
	w.tell(engine.News{State: s, AsOf: sent})
}

// revision returns the revision of the leader that was told last; -1 if none was.
func (w *watch) revision() int64 {
	if w.told == nil || w.told.Leader.Revision == 0 {
		return -1
	}
	return int64(w.told.Leader.Revision)
}

// end tells that the watch is over.
func (w *watch) end() {
	w.tell(engine.News{Over: true})
	select {
	case w.set <- fmt.Errorf("%w: the server has failed over", store.ErrUnavailable):
	default: // it was set
	}
}
