package engine

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// scriptedPeers is a scripted driver of a service that ends no session.
type scriptedPeers struct {
	*scripted
	proofs *[]proof
	hang   bool
	fails  error
}

func (s scriptedPeers) Peer(ctx context.Context, session string) (Peer, error) {
	a := s.ask(ctx, &request{op: "Peer", key: session})
	return a.peer, a.err
}

func (s scriptedPeers) Expire(ctx context.Context, session, mark string) error {
	return s.ask(ctx, &request{op: "Expire", key: session, value: mark}).err
}

// Prove is answered at once, unless a test hangs it.
func (s scriptedPeers) Prove(ctx context.Context, session, mark string, age time.Duration) error {
	*s.proofs = append(*s.proofs, proof{session, mark, age})
	if s.hang {
		<-ctx.Done()
		return errLater
	}
	return s.fails
}

// proof is what Prove was called with.
type proof struct {
	session, mark string
	age           time.Duration
}

const peerTTL = 8 * time.Second

func marked(mark string) answer { return answer{peer: Peer{Mark: mark, TTL: peerTTL}} }

// peers plays with a ballot that waits behind one of another session, whose session has been asked for.
func peers(t *testing.T, test func(t *testing.T, s *scene, b *ballot, prev, peer *request)) {
	t.Helper()
	play(t, Settings{Pace: time.Hour}, func(t *testing.T, s *scene) {
		s.Engine.settings.Pace = pace // but nothing is resynced
		s.Engine.peers = scriptedPeers{scripted: s.scripted, proofs: new([]proof)}
		b := s.cast(7, behind)
		prev := s.find("Entry").shows(other)
		s.find("Entry").shows(State{Token: 7, Session: s.scripted.session.ID()})
		peer := s.find("Peer")
		require.Equal(t, other.Session, peer.key)
		test(t, s, b, prev, peer)
	})
}

// TestSessionThatIsNotRenewedExpires: a TTL after the answer that told of its mark, and not before.
func TestSessionThatIsNotRenewedExpires(t *testing.T) {
	peers(t, func(t *testing.T, s *scene, b *ballot, prev, peer *request) {
		time.Sleep(time.Second) // the answer takes a second
		peer.answer(marked("1"))
		for range 3 {
			time.Sleep(peerTTL/4 - 1)
			require.Zero(t, s.count("Peer"))
			time.Sleep(time.Nanosecond)
			s.next("Peer").answer(marked("1"))
			require.Zero(t, s.count("Expire"))
		}
		time.Sleep(peerTTL/4 - 1)
		s.quiet()
		time.Sleep(time.Nanosecond)
		s.next("Peer").answer(marked("1"))
		expire := s.next("Expire")
		require.Equal(t, other.Session+" 1", expire.key+" "+expire.value)
		expire.answer(answer{})
		require.False(t, b.isFirst(), "its entry is read first")
		s.find("Entry").shows(State{})
		s.next("Entry").shows(State{Token: 7, Session: s.scripted.session.ID()})
		require.True(t, b.isFirst())
		require.True(t, prev.isStopped())
		time.Sleep(peerTTL)
		require.Zero(t, s.count("Peer"), "it is not looked after any more")
		require.Empty(t, s.detectors)
	})
}

// TestSessionThatIsRenewedLives: each mark has a TTL of its own.
func TestSessionThatIsRenewedLives(t *testing.T) {
	peers(t, func(t *testing.T, s *scene, _ *ballot, _, peer *request) {
		peer.answer(marked("1"))
		for i := range 12 {
			time.Sleep(peerTTL / 4)
			s.find("Peer").answer(marked([]string{"2", "3", "4", "5"}[i/3]))
			require.Zero(t, s.count("Expire"))
		}
	})
}

// TestAgeOfAMark that is proved counts; one that is not proved any more does not take it back.
func TestAgeOfAMark(t *testing.T) {
	peers(t, func(t *testing.T, s *scene, _ *ballot, _, peer *request) {
		peer.answer(marked("1"))
		time.Sleep(peerTTL / 4)
		s.find("Peer").answer(answer{peer: Peer{Mark: "1", TTL: peerTTL, Age: peerTTL * 7 / 8}})
		time.Sleep(peerTTL / 8)
		s.find("Peer").answer(marked("1"))
		require.Equal(t, 1, s.count("Expire"))
	})
	peers(t, func(t *testing.T, s *scene, _ *ballot, _, peer *request) {
		peer.answer(answer{peer: Peer{Mark: "1", TTL: peerTTL, Age: peerTTL}})
		require.Equal(t, 1, s.count("Expire"), "at once")
	})
	peers(t, func(t *testing.T, s *scene, _ *ballot, _, peer *request) {
		peer.answer(answer{peer: Peer{Mark: "1", TTL: peerTTL, Age: peerTTL - time.Nanosecond}})
		require.Zero(t, s.count("Expire"), "not a moment too soon")
	})
	peers(t, func(t *testing.T, s *scene, _ *ballot, _, peer *request) {
		peer.answer(answer{peer: Peer{Mark: "1", TTL: peerTTL, Age: peerTTL - time.Second}})
		time.Sleep(time.Second - 1)
		s.quiet()
		time.Sleep(time.Nanosecond)
		s.find("Peer").answer(marked("2"))
		require.Zero(t, s.count("Expire"), "renewed")
	})
}

// TestProofs: what a detector has seen is written for those that come later, once for each quarter of the TTL that the mark
// has stood. A request that fails or hangs holds nothing up.
func TestProofs(t *testing.T) {
	for name, change := range map[string]func(*scriptedPeers){
		"noted": func(*scriptedPeers) {},
		"fails": func(p *scriptedPeers) { p.fails = errLater },
		"hangs": func(p *scriptedPeers) { p.hang = true },
	} {
		peers(t, func(t *testing.T, s *scene, _ *ballot, _, peer *request) {
			p := s.Engine.peers.(scriptedPeers)
			change(&p)
			s.Engine.peers = p // nothing has been proved yet
			peer.answer(marked("1"))
			time.Sleep(peerTTL / 4)
			s.find("Peer").answer(marked("2"))
			require.Empty(t, *p.proofs, "it is renewed")
			for range 4 {
				time.Sleep(peerTTL / 4)
				if s.count("Peer") > 0 { // none while the request hangs
					s.find("Peer").answer(marked("2"))
				}
			}
			require.Equal(t, 1, s.count("Expire"), name)
			if name == "noted" {
				require.Equal(t, []proof{
					{other.Session, "2", peerTTL / 4}, {other.Session, "2", peerTTL / 2}, {other.Session, "2", peerTTL * 3 / 4},
				}, *p.proofs)
			}
		})
	}
	peers(t, func(t *testing.T, s *scene, _ *ballot, _, peer *request) {
		proofs := s.Engine.peers.(scriptedPeers).proofs
		known := answer{peer: Peer{Mark: "1", TTL: peerTTL, Age: peerTTL / 2}}
		peer.answer(known)
		time.Sleep(peerTTL / 4)
		s.find("Peer").answer(known)
		require.Equal(t, []proof{{other.Session, "1", peerTTL * 3 / 4}}, *proofs, "what others have proved counts")
	})
}

// TestRefusedExpiry: the session has been renewed meanwhile.
func TestRefusedExpiry(t *testing.T) {
	peers(t, func(t *testing.T, s *scene, b *ballot, _, peer *request) {
		peer.answer(answer{peer: Peer{Mark: "1", TTL: peerTTL, Age: peerTTL}})
		s.find("Expire").fail(errUnsent)
		time.Sleep(pace)
		require.Zero(t, s.count("Expire"))
		s.find("Peer").answer(marked("2"))
		require.Zero(t, s.count("Expire"))
		require.False(t, b.isFirst())
		require.False(t, b.isLost())
	})
}

// TestPeerIsAskedAgainAfterAnError, whatever it is, and also after Expire's.
func TestPeerIsAskedAgainAfterAnError(t *testing.T) {
	for _, err := range []error{errLater, errUnsent, store.ErrDenied} {
		peers(t, func(t *testing.T, s *scene, b *ballot, _, peer *request) {
			var log lines
			s.Engine.program.logger = log.logger()
			peer.fail(err)
			require.Equal(t, err == store.ErrDenied, log.count() > 0, log.String())
			time.Sleep(pace - time.Nanosecond)
			s.quiet()
			time.Sleep(time.Nanosecond)
			s.find("Peer").answer(answer{peer: Peer{Mark: "1", TTL: peerTTL, Age: peerTTL}})
			s.find("Expire").fail(err)
			time.Sleep(pace)
			s.find("Peer").answer(answer{peer: Peer{Mark: "1", TTL: peerTTL}})
			require.Equal(t, 1, s.count("Expire"), "the mark is still the same")
			require.False(t, b.isLost())
		})
	}
}

// TestPeerSaysThatTheSessionIsOver: a peer has expired it, and the watch does not say so.
func TestPeerSaysThatTheSessionIsOver(t *testing.T) {
	for _, op := range []string{"Peer", "Expire"} {
		peers(t, func(t *testing.T, s *scene, b *ballot, _, peer *request) {
			if op == "Expire" {
				peer.answer(answer{peer: Peer{Mark: "1", TTL: peerTTL, Age: peerTTL}})
				peer = s.find("Expire")
			}
			peer.fail(ErrOver)
			s.find("Entry").shows(State{})
			s.find("Entry").shows(State{Token: 7, Session: s.scripted.session.ID()})
			require.True(t, b.isFirst())
		})
	}
}

// TestOneDetectorForEachSession: two ballots behind one session share it, and the last one that leaves ends it.
func TestOneDetectorForEachSession(t *testing.T) {
	peers(t, func(t *testing.T, s *scene, one *ballot, _, peer *request) {
		two := s.cast(8, Place{Nearest: "other too"})
		s.find("Entry").shows(State{Token: 2, Session: other.Session})
		s.find("Entry").shows(State{Token: 8, Session: s.scripted.session.ID()})
		require.Equal(t, 1, s.count("Peer"))
		s.withdraw(t.Context(), one)
		s.find("Remove").answer(answer{})
		require.NoError(t, peer.ctx.Err())
		s.withdraw(t.Context(), two)
		s.find("Remove").answer(answer{})
		require.ErrorIs(t, peer.ctx.Err(), context.Canceled)
		time.Sleep(peerTTL)
		require.Zero(t, s.count("Peer"))
	})
}

// TestDetectorFollowsTheNearest: the next one ahead may be of another session.
func TestDetectorFollowsTheNearest(t *testing.T) {
	peers(t, func(t *testing.T, s *scene, b *ballot, prev, peer *request) {
		b.entry.Place.More = true
		peer.answer(marked("1"))
		prev.goes()
		s.find("Ahead").answer(answer{place: Place{Nearest: "third"}})
		require.Empty(t, s.detectors)
		s.find("Entry").shows(State{Token: 1, Session: "a third session"})
		require.Equal(t, "a third session", s.find("Peer").key)
		require.Len(t, s.detectors, 1)
	})
}

// TestOwnSessionIsNotLookedAfter, nor any if the service does that.
func TestOwnSessionIsNotLookedAfter(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.Engine.peers = scriptedPeers{scripted: s.scripted, proofs: new([]proof)}
		s.cast(7, behind)
		s.find("Entry").shows(State{Token: 1, Session: s.scripted.session.ID()})
		s.find("Entry").shows(State{Token: 7, Session: s.scripted.session.ID()})
		s.quiet()
	})
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.waitingBehind(behind)
		s.quiet()
	})
}
