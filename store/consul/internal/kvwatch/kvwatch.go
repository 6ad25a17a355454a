// Package kvwatch watches keys of Consul. A user names a key, and is told each state of the key, and until when that state
// was right. How an agent is asked is the package's own business. It knows nothing of elections.
//
// What it promises:
//  1. A user is told one state at a time, in the order in which the states were known, and never an older state of a key
//     after a newer one, not from one watch of the key to the next either.
//  2. Watch returns when it has told what was offered, or a read that was sent after the call.
//  3. A state with a time AsOf holds all changes before that time. Each Confirm tells one, or a newer state.
//  4. Every change of a state is told at once as a rule. It is told within 200 ms beyond the first 40 keys, and for keys that
//     the agent takes in transactions only. If a query has gone silent, the next Confirm tells what it has missed of a key
//     that comes again. Of another key, the next Watch does.
//  5. A key may be watched While an own key stands. The end of the watched key is told only if the own key stood then, or
//     later. Otherwise the watch is over without a word: a read has to tell. So a user who must know that the watched key
//     has gone before the own key need not read the own key (BenchmarkResign). That holds once Watch has returned.
package kvwatch

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store/consul/internal/agent"
)

// How keys are watched.
//
// A blocking query holds a connection, and an agent takes 200 of them from an address, of all processes together. So there
// is a limited number of queries, see agent.Queries. A query is not given up when the last user of its key has left, since
// the agent would not notice before the wait of the query is over: the next user often comes soon, and the query of a key
// that is being deleted ends by itself. The wait of a query begins short, and doubles as the watch lasts: short watches leave
// nothing for long, long watches ask rarely. It begins longer if there are many queries, so that many don't ask more often
// than few (TestIdleCost).
//
// Keys beyond that number are watched together, see shared.go: TestManyElections stands in hundreds of elections within the
// connections that a stock agent grants. So are keys that the agent takes in transactions only, see agent.Plain.
//
// Confirm reads the keys that come again, see verify.go.

// Watcher watches keys. Its goroutines are one for each key with a query of its own, and runShared with a query while
// there are keys without. They are tasks of the client's life.
type Watcher struct {
	client *agent.Client
	prefix string
	stands func(key string, e agent.Entry) bool
	doubt  func()

	mu       sync.Mutex
	byKey    map[string]*watch                // guarded by mu, as are all below
	queries  int                              // under way
	running  bool                             // runShared is
	refusing bool                             // an agent has refused a query for a key that is not plain
	offers   map[string]map[string]agent.Read // by directory and key

	wake chan struct{} // has room for one: runShared has something to do
}

// New returns a watcher of keys that begin with a prefix. stands reports whether a key stands, for promise 5. doubt is called
// when a query broke, and when the index of the servers was set back.
func New(client *agent.Client, prefix string, stands func(key string, e agent.Entry) bool, doubt func()) *Watcher {
	return &Watcher{
		client: client, prefix: prefix, stands: stands, doubt: doubt, byKey: map[string]*watch{},
		offers: map[string]map[string]agent.Read{}, wake: make(chan struct{}, 1),
	}
}

// Options say what is known of a key.
type Options struct {
	// Once says that the key never exists again once it has gone. Its value is not told.
	Once bool
	// While is the own key of promise 5, in the same directory; empty if there is none. It costs reads of the whole directory
	// whenever anything in the directory changes.
	While string
	// From reports whether While matters from an entry of the key on. nil: from the first.
	From func(agent.Entry) bool
}

// needs reports whether a user needs to know of the own key when the watched key, which has this entry, ends.
func (o Options) needs(e agent.Entry) bool { return o.While != "" && (o.From == nil || o.From(e)) }

// News is what a user is told.
type News struct {
	agent.Entry
	AsOf time.Time // all changes before it are in the entry; zero if that is not known
	Over bool      // nothing more is told, and the entry was not: watch the key again
}

// Watch watches a key, until stop is called. tell is called under a lock of the watcher: it does not block, and does not
// call the watcher. It may still be called for a moment when stop has returned.
func (all *Watcher) Watch(ctx context.Context, key string, o Options, tell func(News)) (stop func(), err error) {
	u := &user{Options: o, tell: tell}
	w, told := all.join(key, o.Once, u)
	for !told {
		if told, err = w.read(ctx); err != nil {
			w.leave(u)
			return nil, err
		}
	}
	all.mu.Lock()
	u.set = true
	all.mu.Unlock()
	return func() { w.leave(u) }, nil
}

// Offer offers entries of a directory that were read, until they are watched, or something newer of the directory might
// have been told: from then on a read has to tell what they are.
func (all *Watcher) Offer(dir string, read map[string]agent.Read) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.offers[dir] = read
}

// Deleting takes note that a key is about to be deleted. What was offered of its directory is taken back, and Newest passes the
// key over.
func (all *Watcher) Deleting(key string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.offers, dirOf(key))
	if w := all.byKey[key]; w != nil {
		w.deleting = true
	}
}

// dirOf returns the directory of a key.
func dirOf(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

// join adds a user to the watch of a key, and reports whether it has been told what was offered.
func (all *Watcher) join(key string, once bool, u *user) (w *watch, told bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	w = all.byKey[key]
	isNew := w == nil
	if isNew {
		w = &watch{Watcher: all, key: key, dir: dirOf(key), once: once, index: 1, users: map[*user]struct{}{}}
		all.byKey[key] = w
	}
	w.users[u] = struct{}{}
	offered, ok := all.offers[w.dir][key]
	offered.Value = "" // of no use
	if delete(all.offers[w.dir], key); len(all.offers[w.dir]) == 0 {
		delete(all.offers, w.dir)
	}
	switch {
	case !ok || !isNew && (!w.known || w.state != offered.Entry):
		if once {
			delete(all.offers, w.dir)
		}
		return w, false
	case isNew:
		w.known, w.state, w.index = true, offered.Entry, max(1, offered.Index)
		w.start()
	}
	u.tell(News{Entry: w.state})
	return w, true
}

// watch is a key with its latest known state.
type watch struct {
	*Watcher
	key, dir string
	once     bool

	// Guarded by the watcher's mu.
	users      map[*user]struct{}
	known      bool
	state      agent.Entry
	index      uint64 // of the state, for the next query; at least 1
	version    uint64 // counts states
	queried    bool   // it has a query of its own
	unverified bool   // it is shared, and runShared is to verify it
	section    *query // that tells its changes, if it is shared
	long       bool   // the directory has too many keys to be read at each change
	deleting   bool   // see Deleting
}

// user is a user of a watch.
type user struct {
	Options
	tell func(News)
	set  bool // guarded by the watcher's mu: Watch has returned
}

// leave takes a user away. The watch ends with the last one, or when its query does.
func (w *watch) leave(u *user) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.users, u)
	w.endIfUnused()
}

// endIfUnused ends a watch without users and without a query. The caller holds mu.
func (w *watch) endIfUnused() {
	if len(w.users) == 0 && !w.queried && w.byKey[w.key] == w {
		delete(w.byKey, w.key)
		w.wakeShared()
	}
}

// read reads the key as it is now, and reports whether all users have been told of that.
func (w *watch) read(ctx context.Context) (told bool, err error) {
	w.mu.Lock()
	version, first := w.version, !w.known
	w.mu.Unlock()
	sent := time.Now()
	a, err := w.client.Get(ctx, w.key)
	if err != nil {
		return false, err
	}
	told = w.accept(version, a, sent, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	if first && w.shared() {
		w.start()
	}
	return told, nil
}

// shared reports whether the watch goes on without a query of its own. The caller holds mu.
func (w *watch) shared() bool { return w.known && !w.queried && len(w.users) > 0 && !w.over() }

// over reports whether there is nothing more to wait for. The caller holds mu.
func (w *watch) over() bool { return w.once && !w.state.Exists }

// accept takes note of a state that was read when the watch had the given version. It returns false if another state has
// been noted since. sent is when a consistent read was sent: the state is right as of then. beside are the entries of the
// directory at the same time, as far as they were read.
func (w *watch) accept(version uint64, a agent.Read, sent time.Time, beside map[string]agent.Entry) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.version != version {
		return false
	}
	if w.once {
		a.Value = "" // of no use
	}
	w.index = max(1, a.Index)
	if w.known && w.state == a.Entry && sent.IsZero() {
		return true
	}
	if !w.known || w.state != a.Entry || !a.Exists {
		// A key that was absent before, and is absent now, might have existed in between: the answer to a read from in between
		// might come later, and is not believed any more.
		w.version++
	}
	before := w.state
	if !w.known || w.state != a.Entry {
		w.state, w.known = a.Entry, true
		delete(w.offers, w.dir)
	}
	for u := range w.users { // users who came since the last state do not know it
		if u.set && u.needs(before) && !w.stands(w.key, a.Entry) && !w.stands(u.While, beside[u.While]) {
			delete(w.users, u)
			u.tell(News{Over: true})
			continue
		}
		u.tell(News{Entry: a.Entry, AsOf: sent})
	}
	return true
}
