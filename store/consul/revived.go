package consul

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
)

// Ballots that come back.
//
// `consul snapshot restore` brings keys back that were deleted since the snapshot was taken, and the sessions that lock
// them. A withdrawn ballot of a session that the store goes on renewing would stand for as long as the store lives. So
// a ballot is removed if it is of the store's own session, has a name that this store made, and no candidate of the
// store has it. A ballot of another program on the same session is left alone: its nonce is not the store's.
//
// Such a ballot is met by the store's own candidates in the same election. And after a restore, which ends all blocking
// queries without news, the store looks for them in all elections.

// nonces makes nonces that the store knows again without remembering them: a number, and its code with a secret key.
type nonces struct {
	key  []byte
	last *atomic.Uint32
}

func newNonces() nonces {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return nonces{key, new(atomic.Uint32)}
}

// next returns 16 hex digits that no other ballot of the session has.
func (n nonces) next(session string) string {
	number := binary.BigEndian.AppendUint32(nil, n.last.Add(1))
	return hex.EncodeToString(append(number, n.code(session, number)...))
}

// made reports whether next has returned a nonce for the session.
func (n nonces) made(session, nonce string) bool {
	raw, err := hex.DecodeString(nonce)
	return err == nil && len(raw) == 8 && hmac.Equal(raw[4:], n.code(session, raw[:4]))
}

func (n nonces) code(session string, number []byte) []byte {
	code := hmac.New(sha256.New, n.key)
	code.Write(number)
	code.Write([]byte(session))
	return code.Sum(nil)[:4]
}

// meet removes a ballot that has come back. The election and key are those of a ballot that was seen.
func (s *Store) meet(sess *session, election, key string) {
	name, ok := strings.CutPrefix(key, s.layout.dir(election))
	nonce, own := strings.CutPrefix(name, sess.id+"-")
	if !ok || !own || !s.nonces.made(sess.id, nonce) {
		return
	}
	s.mu.Lock()
	_, wanted := s.names[name]
	_, leaving := sess.leaving[name]
	if !wanted {
		sess.leaving[name] = struct{}{} // from now on
	}
	s.mu.Unlock()
	if wanted || leaving {
		return
	}
	b := &ballot{Ballot: adapter.NewBallot(s.life, election), store: s, session: sess, name: name}
	b.Lose("it was withdrawn")
	s.orphans.Add(orphan{ballot: b, tried: true, revived: true})
}

// sweepRevived looks for ballots of the session that have come back, in all elections, in the background.
func (s *Store) sweepRevived(sess *session) {
	if !s.sweeping.CompareAndSwap(false, true) {
		return
	}
	if !s.life.Go(func() {
		defer s.sweeping.Store(false)
		ctx, cancel := context.WithTimeout(s.life.Background, max(s.config.TTL, requestLimit))
		defer cancel()
		defer context.AfterFunc(sess.ctx, cancel)()
		for ctx.Err() == nil {
			names, err := request(ctx, s, func(ctx context.Context) ([]string, error) {
				names, meta, err := s.client.KV().Keys(s.layout.prefix+"/", "", s.consistent(ctx))
				return names, agents(meta, err)
			})
			if err == nil {
				for _, key := range names {
					rest, _ := strings.CutPrefix(key, s.layout.prefix+"/")
					if election, _, ok := strings.Cut(rest, "/_ballots/"); ok {
						s.meet(sess, election, key)
					}
				}
				return
			}
			adapter.PauseFor(ctx, time.Second/4)
		}
	}) {
		s.sweeping.Store(false)
	}
}
