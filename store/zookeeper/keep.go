package zookeeper

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// keeper confirms the session until the store is closed: once after each connection, and then a TTL/6 after the answer to
// the last, see barrier. While an answer takes longer than TTL/24, it sends one each TTL/48, so that a lease is
// renewed as often over a slow link. All of its state is that of the goroutine which runs keep.
type keeper struct {
	*Store
	epoch    uint64            // of the last connection after which the session was confirmed
	under    []store.Instant   // when those were sent that have no answer yet, the oldest first
	last     time.Time         // when the last one was sent or answered
	looked   time.Time         // when the last turn to look was given: the answer that it came with
	answers  chan confirmation // has room for as many as are under way
	refusals int               // in a row, of a caller's connection
}

// confirmation is the answer to a barrier.
type confirmation struct {
	id   int64 // of the session
	sent store.Instant
	err  error
}

// mostUnderWay is how many confirmations are under way at most: those of TTL/3.
const mostUnderWay = 16

func (s *Store) keep() {
	k := &keeper{Store: s, answers: make(chan confirmation, mostUnderWay)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		epoch, changed := s.connection()
		if s.isRefused() {
			s.hosts.quit()
			s.conn.Close()
			return
		}
		if s.config.Conn == nil && epoch != k.epoch || time.Until(k.due()) <= 0 {
			k.epoch = epoch
			k.send()
		}
		k.cutSilent()
		timer.Reset(max(time.Until(k.due()), time.Millisecond))
		select {
		case <-changed:
		case <-timer.C:
		case c := <-k.answers:
			k.last = time.Now()
			k.under = slices.DeleteFunc(k.under, func(i store.Instant) bool { return i == c.sent })
			if c.err == nil && c.id != 0 && s.sessionID() == c.id {
				s.touched(c.id, c.sent)
				k.look()
			}
			k.checkCaller(c.err, time.Since(c.sent.Time()))
		case <-s.life.Background.Done():
			return
		}
	}
}

// look lets the next in turn look for itself, no more often over a slow link.
func (k *keeper) look() {
	if k.last.Sub(k.looked) >= interval(k.config.TTL) {
		k.looked = k.last
		k.looks.Next()
	}
}

func (s *Store) isRefused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused != nil && s.config.Conn == nil
}

// due returns when the next confirmation must be sent.
func (k *keeper) due() time.Time {
	ttl := k.config.TTL
	switch {
	case len(k.under) == 0:
		return k.last.Add(k.next())
	case len(k.under) == mostUnderWay, !k.up():
		return time.Now().Add(interval(ttl))
	}
	late, spaced := k.under[0].Time().Add(ttl/24), k.last.Add(ttl/48)
	if late.After(spaced) {
		return late
	}
	return spaced
}

// next is how long after the last answer the next confirmation is sent.
func (s *Store) next() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return interval(s.config.TTL)
	}
	return s.current.touches.next()
}

// send sends a confirmation. On a connection of the store's own it does so only if that is up.
func (k *keeper) send() {
	k.last = time.Now()
	if k.config.Conn == nil && !k.up() {
		return
	}
	c := confirmation{id: k.sessionID(), sent: store.Now()}
	k.under = append(k.under, c.sent)
	k.life.Go(func() {
		c.err = k.barrier()
		select {
		case k.answers <- c:
		case <-k.life.Background.Done(): // keep might have ended
		}
	})
}

// barrier is answered by a quorum of the ensemble, behind all that was committed before it: a transaction that changes
// nothing. A Sync is not enough: a leader of the ensemble that has lost the others answers it for some ticks more, and
// they might have elected another one.
func (s *Store) barrier() error {
	_, err := s.conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
	if errors.Is(err, zk.ErrNoAuth) { // a refusal goes through the quorum too
		return nil
	}
	return explain(err)
}

// cutSilent cuts a connection of the store's own that has answered no confirmation for long: the next server may answer
// while the lease still holds. The time counts from the end of the handshake, which has limits of its own.
func (k *keeper) cutSilent() {
	if k.config.Conn != nil || len(k.under) == 0 {
		return
	}
	k.mu.Lock()
	since, patience := k.ready, k.patience
	k.mu.Unlock()
	if since.IsZero() {
		return
	}
	if oldest := k.under[0].Time(); oldest.After(since) {
		since = oldest
	}
	if time.Since(since) >= patience {
		k.cut(fmt.Errorf("the server has not answered for %v", patience))
	}
}

// checkCaller finds out that the caller has closed its connection: the library then refuses each request at once, where
// otherwise one waits for the next connection.
func (k *keeper) checkCaller(err error, after time.Duration) {
	if k.config.Conn == nil {
		return
	}
	if !errors.Is(err, zk.ErrConnectionClosed) || after > 10*time.Millisecond || k.conn.State() != zk.StateDisconnected {
		k.refusals = 0
		return
	}
	if k.refusals++; k.refusals == 3 {
		k.set(func() {
			k.refused = fmt.Errorf("%w: so is the caller's connection", store.ErrClosed)
			k.end(fmt.Errorf("%w: %w", store.ErrLost, k.refused))
		})
	}
}

// sessionID returns the id of the present session, 0 if there is none. Of an own connection the wire knows it
// before the library does.
func (s *Store) sessionID() int64 {
	if s.config.Conn != nil {
		return s.conn.SessionID()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0
	}
	return s.current.id
}

// touched renews the lease of the session that has answered, if it is still the current one.
func (s *Store) touched(id int64, sent store.Instant) {
	s.mu.Lock()
	if s.config.Conn != nil && (s.current == nil || s.current.id != id) {
		s.epoch++
		s.adopt(id)
		close(s.changed)
		s.changed = make(chan struct{})
	}
	sess := s.current
	if sess == nil || sess.id != id {
		s.mu.Unlock()
		return
	}
	var age time.Duration
	certain := !sent.Time().Before(sess.since.Time()) // on this connection
	if certain {
		age, certain = sess.touches.add(touch{sent: sent, answered: time.Now()})
	}
	if s.polls.Settled() && sent.Time().After(s.confirmed) {
		s.confirmed = sent.Time()
	}
	select {
	case <-sess.synced:
	default:
		close(sess.synced)
	}
	s.mu.Unlock()
	if certain {
		sess.lease.Renew(sent, s.config.TTL-s.config.Grace-age)
	}
}
