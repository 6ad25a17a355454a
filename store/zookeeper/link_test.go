package zookeeper

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

const scriptedTTL = 6 * time.Second

// The library's client sees the answer to the driver's handshake, however the frames are cut, and no other frame is
// changed.
func TestWireDropsTheLibrarysHandshake(t *testing.T) {
	frame := append([]byte{0, 0, 0, 20}, make([]byte, 20)...)
	for size := 1; size <= minReply+24; size++ {
		client, server := net.Pipe()
		w := newWire(client)
		go func() {
			_ = readFrame(server)
			for rest := append(handshakeReply(granted, scriptedTTL), frame...); len(rest) > 0; {
				n := min(size, len(rest))
				_, _ = server.Write(rest[:n])
				rest = rest[n:]
			}
		}()
		_, reply, err := w.shake(nil, scriptedTTL, time.Minute)
		require.NoError(t, err)
		require.Equal(t, []any{int64(granted), password(granted)}, []any{reply.Session, reply.Password})
		_, err = w.Write([]byte("the library's own"))
		require.NoError(t, err)
		for _, want := range [][]byte{handshakeReply(granted, scriptedTTL), frame} {
			read := make([]byte, len(want))
			_, err := io.ReadFull(w, read)
			require.NoError(t, err)
			require.Equal(t, want, read)
		}
		go func() { _, _ = w.Write(frame) }()
		require.Equal(t, frame[lengthBytes:], readFrame(server))
		_, _ = client.Close(), server.Close()
	}
}

func TestWireRefusesFramesThatNoServerSends(t *testing.T) {
	for name, sent := range map[string]string{
		"a web server":       "HTTP/1.1 400 Bad Request\r\n\r\n",
		"a shell server":     "SSH-2.0-OpenSSH_9.2\r\n",
		"an empty frame":     "\x00\x00\x00\x00",
		"a short next frame": string(handshakeReply(1, time.Second)) + "\x00\x00\x00\x08abcdefgh",
		"a huge next frame":  string(handshakeReply(1, time.Second)) + "\x7f\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			w := newWire(client)
			go func() { _ = readFrame(server); _, _ = server.Write([]byte(sent)) }()
			_, _, err := w.shake(nil, scriptedTTL, time.Minute)
			if err == nil {
				_, err = io.ReadFull(w, make([]byte, len(sent)+1))
			}
			require.ErrorContains(t, err, "not a ZooKeeper server")
			_, _ = client.Close(), server.Close()
		})
	}
}

// The client library's limit for a read passes while the process stands still. It ends no connection: the answer has come.
func TestWireTakesNoReadDeadline(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	w := newWire(client)
	go func() { _, _ = server.Write(handshakeReply(1, time.Second)) }()
	require.NoError(t, w.SetReadDeadline(time.Now().Add(-time.Second)))
	_, err := io.ReadFull(w, make([]byte, lengthBytes+minReply))
	require.NoError(t, err)
	require.NoError(t, w.why())
}

// The connection breaks when a ballot's creation might have reached the ensemble's leader and is not committed yet. Another
// server can answer a read without the ballot, so the search waits for the barrier of the next connection. Otherwise the
// store would cast another ballot, which would wait for the first one.
func TestSearchIsBehindTheCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL, trip: scriptedTTL / 8}
		came := map[int32]time.Time{} // when the first request of a kind came on the second connection
		s.mute = func(dial int, op int32) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			if _, ok := came[op]; dial == 2 && !ok {
				came[op] = time.Now()
			}
			return dial == 1 && op == opCreate
		}
		d := s.driver(t)
		sess := s.session(t, d)
		_, err := sess.Enter(t.Context(), "election", engine.Nonce{Name: "nonce"}, "ours")
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
		_ = s.session(t, d).Void(t.Context(), "election", engine.Nonce{Name: "nonce"}) // the scripted server has no lists
		s.mu.Lock()
		defer s.mu.Unlock()
		require.Contains(t, came, int32(opList))
		require.GreaterOrEqual(t, came[opList].Sub(came[opMulti]), s.trip)
	})
}

// The session is resumed with its id and password on each connection, until a server says that it has expired.
func TestSessionIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL, mute: func(dial int, op int32) bool { return dial < 3 && op == opMulti }}
		s.grant = func(dial int, asked int64) (int64, bool) {
			if dial == 4 {
				return 0, true
			}
			return -1, true
		}
		d := s.driver(t)
		sess := s.session(t, d)
		require.EqualValues(t, granted, sess.id)
		require.Equal(t, []int64{0, granted, granted}, s.asked)
		l, err := d.up(t.Context())
		require.NoError(t, err)
		l.wire.end(errors.New("for a test"))
		<-sess.lost
		require.NoError(t, sess.left)
		synctest.Wait()
		require.EqualValues(t, granted+1, s.session(t, d).id)
		require.Equal(t, []int64{0, granted, granted, granted, 0}, s.asked)
		_, err = sess.up(t.Context())
		require.ErrorIs(t, err, engine.ErrOver)
	})
}

// A session is given up if requests could use none of its connections for a TTL: its handshakes have no answer, or one for
// another session, or its confirmations have none. It is not asked for any more. It might go on for a TTL.
func TestUnansweredSessionIsGivenUp(t *testing.T) {
	for name, answer := range map[string]func(asked int64) (int64, bool){
		"none":        func(asked int64) (int64, bool) { return 0, false },
		"another":     func(asked int64) (int64, bool) { return asked + 100, true },
		"unconfirmed": func(asked int64) (int64, bool) { return -1, true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{ttl: scriptedTTL}
				s.grant = func(dial int, asked int64) (int64, bool) {
					if asked != 0 {
						return answer(asked)
					}
					return -1, true
				}
				s.mute = func(dial int, _ int32) bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return s.asked[dial-1] != 0
				}
				d := s.driver(t)
				sess := s.session(t, d)
				l, err := d.up(t.Context())
				require.NoError(t, err)
				broken := time.Now()
				l.wire.end(errors.New("for a test"))
				<-sess.lost
				require.ErrorContains(t, sess.left, "no connection was of use")
				require.GreaterOrEqual(t, time.Since(broken), scriptedTTL)
				require.Less(t, time.Since(broken), 2*scriptedTTL)
				_, err = sess.up(t.Context())
				require.ErrorIs(t, err, store.ErrUnavailable)
				require.EqualValues(t, granted+1, s.session(t, d).id)
			})
		})
	}
}

// A server answers each request that the session has moved to another one. The connection is given up, and the session
// goes on with the next.
func TestSessionMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL, code: func(dial int) int32 { return moved * int32(1/dial) }}
		d := s.driver(t)
		sess := s.session(t, d)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, sess, s.session(t, d))
		require.Equal(t, []int64{0, granted}, s.asked)
	})
}

// A server hangs up after the handshake. The pauses between dials grow to TTL/6: each costs a client of the library.
func TestServerHangsUpAfterTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL, most: 1000, hangs: true, trip: time.Millisecond}
		d := s.driver(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Less(t, len(s.dials), 60+10)
		require.Greater(t, len(s.dials), 50)
		require.Less(t, s.dials[1].Sub(s.dials[0]), 100*time.Millisecond, "the first pause is short")
		require.ErrorContains(t, d.unreached(t.Context()), "127.0.0.1:2181: the server closed the connection")
	})
}

// The library's own request ends a session. If the request has no answer, the next connection sends it again, until an
// answer comes or a server says that the session has expired.
func TestEndOfASession(t *testing.T) {
	for name, c := range map[string]struct {
		mute    int // the last connection that does not answer
		expired int // the connection on which the session has expired
		ended   []int
		asked   []int64
	}{
		"at once": {0, 0, []int{1}, []int64{0, 0}},
		"late":    {2, 0, []int{1, 2, 3}, []int64{0, granted, granted, 0}},
		"expired": {1, 2, []int{1}, []int64{0, granted, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{ttl: scriptedTTL, trip: scriptedTTL / 8}
				s.mute = func(dial int, op int32) bool { return dial <= c.mute && op == opClose }
				s.grant = func(dial int, asked int64) (int64, bool) {
					if dial == c.expired {
						return 0, true
					}
					return -1, true
				}
				d := s.driver(t)
				opened, _, err := d.Open(t.Context())
				for err != nil {
					opened, _, err = d.Open(t.Context())
				}
				_, _, err = d.Open(t.Context())
				require.ErrorIs(t, err, errKept, "there is one session at a time")
				require.NoError(t, opened.End(t.Context(), nil))
				next := s.session(t, d)
				require.NotEqual(t, opened, next)
				require.Equal(t, c.ended, s.ended)
				require.Equal(t, c.asked, s.asked)
			})
		})
	}
}

// Close ends soon if the server reads nothing, while a session is being ended or not; and during a handshake.
func TestCloseOfAServerThatDoesNotRead(t *testing.T) {
	for name, handshake := range map[string]bool{"handshake": false, "session": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ends []net.Conn
				d, err := newDriver(Config{Servers: []string{"127.0.0.1"}, TTL: time.Minute, Dial: func(context.Context, string, string) (net.Conn, error) {
					client, server := net.Pipe()
					ends = append(ends, server)
					go func() {
						if readFrame(server) != nil && handshake {
							_, _ = server.Write(handshakeReply(granted, time.Minute))
						}
					}()
					return client, nil
				}})
				require.NoError(t, err)
				synctest.Wait()
				began := time.Now()
				require.NoError(t, d.Close())
				require.LessOrEqual(t, time.Since(began), 4*time.Second)
				for _, end := range ends {
					_ = end.Close()
				}
			})
		})
	}
}

// In the first round a server that might be gone holds up the others for a second, and for a TTL/5 after that. Servers
// that refuse a connection at once are not asked again at once.
func TestDialLimits(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(context.Context) error
		gaps  []time.Duration
	}{
		"silent": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			[]time.Duration{1000, 1000, 4000, 4000, 4000, 4000}},
		"refused": {func(context.Context) error { return errors.New("refused") },
			[]time.Duration{0, 50, 100, 200, 250, 250}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dials []time.Time
				var addresses []string
				d, err := newDriver(Config{
					Servers: []string{"a", "b"}, TTL: 20 * time.Second,
					Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
						dials, addresses = append(dials, time.Now()), append(addresses, address)
						return nil, c.fails(ctx)
					},
				})
				require.NoError(t, err)
				time.Sleep(time.Minute)
				require.NoError(t, d.Close())
				for i, gap := range c.gaps {
					require.Equal(t, gap*time.Millisecond, dials[i+1].Sub(dials[i]), "dial %d", i+1)
					require.NotEqual(t, addresses[i], addresses[i+1])
				}
			})
		})
	}
}

// A new session has to be granted the TTL that was asked for. One that is resumed may be granted more: it lasts no shorter
// than its lease.
func TestPresentSessionIsGrantedMore(t *testing.T) {
	const millis = int32(scriptedTTL / time.Millisecond)
	d := &driver{config: Config{TTL: scriptedTTL}, changed: make(chan struct{})}
	s, err := d.take(nil, connectReply{Session: 1, Millis: millis})
	require.NoError(t, err)
	_, err = d.take(s, connectReply{Session: 1, Millis: 2 * millis})
	require.NoError(t, err)
	require.NoError(t, d.refused)
	require.Equal(t, s, d.current)
	_, err = d.take(nil, connectReply{Session: 2, Millis: 2 * millis})
	require.NoError(t, err, "there is a session, which has to be closed")
	require.Error(t, d.refused)
	require.Nil(t, d.current)
}

// A member of the ensemble to which the store connects later grants less than those before. The guarantees of the old
// timeout do not hold any more, so the store ends the session with its ballots, and a campaign reports why.
func TestReconnectionIsGrantedLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL, less: time.Second}
		d := s.driver(t)
		sess := s.session(t, d)
		l, err := d.up(t.Context())
		require.NoError(t, err)
		l.wire.end(errors.New("for a test"))
		<-sess.lost
		synctest.Wait()
		_, err = sess.up(t.Context())
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "the ensemble grants 5s instead")
		_, _, err = d.Open(t.Context())
		require.ErrorIs(t, err, store.ErrInvalid)
		require.Equal(t, []int{2}, s.ended, "the old ballots block no other")
	})
}

// No request is sent before the identity has been accepted. A server that does not answer that is left.
func TestConnectionIsNotUsedBeforeTheIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL, skips: opSetAuth, user: "ann"}
		d := s.driver(t)
		for range 10 {
			_, err := d.up(t.Context())
			require.ErrorIs(t, err, store.ErrUnavailable)
		}
		synctest.Wait()
		require.Greater(t, len(s.asked), 2)
	})
}

// A server freezes. The error of a request says that, and not that the library has closed the connection.
func TestFrozenServerIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const opGetData = 4
		d := (&scriptedServer{ttl: scriptedTTL, mute: func(_ int, op int32) bool { return op == opGetData }}).driver(t)
		_, err := d.WatchEntry(t.Context(), "/e/ballot", func(engine.News) {})
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
		require.ErrorContains(t, err, "127.0.0.1:2181: the server has not answered for 1.2s")
		require.NotContains(t, err.Error(), "TLS", "the server has worked before")
	})
}
