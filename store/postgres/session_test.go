package postgres

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// The rule of Keep: a renewal is sent each sixth of the TTL, whether or not the last one was answered. Other requests
// that hang keep none from being sent.
func TestKeepWaitsForNoAnswer(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		ctx, stop := context.WithCancel(t.Context())
		s, _, err := d.Open(ctx)
		require.NoError(t, err)
		f.set(func() { f.hangs["renew"], f.hangs["enter"] = true, true })
		ended := make(chan error)
		for i := range 12 {
			go func() {
				_, err := s.Enter(ctx, "x", engine.Nonce{Name: "n", Slot: i}, "own")
				ended <- err
			}()
		}
		go func() { ended <- s.Keep(ctx, func(engine.Proof) { t.Error("a renewal counts that was not answered") }) }()
		time.Sleep(12*time.Second - 1)
		synctest.Wait()
		require.Len(t, f.called("enter"), 2*requests, "as many again when the first have had no answer for long")
		at := f.called("renew")
		require.Len(t, at, 3)
		for i, at := range at {
			require.InDelta(t, float64(4*time.Second)*float64(i), float64(at), float64(2*time.Second), "renewal %d", i)
		}
		stop()
		for range 13 {
			require.Error(t, <-ended)
		}
	})
}

// The rules of a proof: it is valid for the TTL without the grace, and of the connection that the request was sent on,
// even if the connection was lost before the answer came.
func TestProof(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second, Grace: 5 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.hangs["open"] = true
		type opened struct {
			s     engine.Session
			proof engine.Proof
		}
		ch := make(chan opened)
		go func() {
			s, proof, err := d.Open(t.Context())
			require.NoError(t, err)
			ch <- opened{s, proof}
		}()
		time.Sleep(3 * time.Second)
		d.losses.Add(1)
		f.release()
		o := <-ch
		require.Equal(t, 3*time.Second, o.proof.Sent.Since(time.Now()), "from before the request was sent")
		require.Equal(t, 19*time.Second, o.proof.Valid)
		require.EqualValues(t, 1, o.proof.Connection)

		f.set(func() { f.hangs["renew"] = true })
		var proof engine.Proof
		renewed := make(chan error)
		go func() {
			renewed <- o.s.(*session).renew(t.Context(), func(p engine.Proof) { proof = p })
		}()
		time.Sleep(4 * time.Second)
		d.losses.Add(1)
		f.release()
		require.NoError(t, <-renewed)
		require.Equal(t, 4*time.Second, proof.Sent.Since(time.Now()))
		require.EqualValues(t, 2, proof.Connection)
		require.Equal(t, 19*time.Second, proof.Valid)
	})
}

// The rules of Keep's end: when the session is over it returns nil, after a refusal the error, and while nothing is
// known it goes on. Nothing of it is left.
func TestKeepEnds(t *testing.T) {
	for code, is := range map[string]error{"": nil, "42501": store.ErrDenied, "42P01": nil} {
		inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
			s, _, err := d.Open(t.Context())
			require.NoError(t, err)
			f.set(func() { f.fails["renew"] = "57P01" })
			ended := make(chan error, 1)
			go func() { ended <- s.Keep(t.Context(), func(engine.Proof) {}) }()
			time.Sleep(9 * time.Second)
			synctest.Wait()
			require.Empty(t, ended)
			require.Len(t, f.called("renew"), 3)
			f.set(func() {
				f.fails["renew"] = code
				f.answer["renew"] = one()
			})
			require.ErrorIs(t, <-ended, is)
			require.Len(t, f.called("renew"), 4)
		})
	}
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		f.set(func() { f.hangs["renew"] = true })
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(9*time.Second, stop)
		require.ErrorIs(t, s.Keep(ctx, func(engine.Proof) {}), context.Canceled)
		require.Equal(t, 9*time.Second, time.Since(f.began).Truncate(time.Second), "it waits for no answer")
	})
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		f.set(func() { f.hangs["renew"] = true })
		time.AfterFunc(time.Second, func() {
			f.set(func() {
				delete(f.hangs, "renew")
				f.answer["renew"] = one()
			})
		})
		began := time.Now()
		require.NoError(t, s.Keep(t.Context(), func(engine.Proof) {}))
		require.Equal(t, 4*time.Second, time.Since(began), "the second renewal says that it is over, and the first is not waited for")
	})
}

// A renewal notes the marks of the others, and not its own: a session that saw its own mark stand would end itself.
func TestRenewalNotesOthers(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		f.answer["renew"] = func(args []string) []any {
			return []any{[]any{args[0], int64(7), int64(1000)}, []any{"other", int64(8), int64(2000)}}
		}
		require.NoError(t, s.(*session).renew(t.Context(), func(engine.Proof) {}))
		require.Len(t, d.marks, 1)
		require.Equal(t, "8", d.marks["other"].silence.Mark())
		require.Equal(t, 2*time.Second, d.marks["other"].silence.Left(time.Now()))
	})
}

// Marks are random, and so are sessions' names.
func TestMark(t *testing.T) {
	require.NotEqual(t, mark(), mark())
}

// A session's end is sent until it is answered. Acknowledgements have turns of their own.
func TestEndAndTurns(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		for _, turn := range []string{"1", "2"} {
			_, err := s.Acknowledge(t.Context(), engine.Entry{Token: 1}, "own")
			require.NoError(t, err)
			require.Equal(t, turn, f.args("acknowledge")[2])
		}
		f.set(func() { f.fails["close"] = "57P01" })
		time.AfterFunc(time.Second, func() { f.set(func() { delete(f.fails, "close") }) })
		require.NoError(t, s.End(t.Context(), nil))
		require.Len(t, f.called("close"), 6) // at 0, 50, 150, 350, 750 and 1,150 ms
	})
}

// No ballot is cast during a pause. That is an answer, and the pause's mark is noted, so that the pause ends.
func TestPauseIsNoted(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		f.answer["enter"] = one("pause", nil, nil, nil, "pause 1", int64(5), int64(3000))
		for range 2 {
			_, err = s.Enter(t.Context(), "x", engine.Nonce{Name: "n"}, "own")
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.True(t, isAnswered(err))
			time.Sleep(3 * time.Second)
			synctest.Wait()
		}
		require.Len(t, f.called("expire"), 1)
		require.Equal(t, []string{"pause 1", "5"}, f.args("expire"))
	})
}

// Another process has created the schema meanwhile: it is not created again, for which there might be no right.
func TestInstallOnce(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.fails["open"] = "42883"
		_, _, err := d.Open(t.Context())
		require.ErrorIs(t, err, errNoSchema)
		require.Len(t, f.called("open"), 2)
		require.Empty(t, f.called("install"))
	})
}

// The schema was dropped, and the connections do not know it yet: it is created again.
func TestInstallAgain(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		_, _, err := d.Open(t.Context())
		require.NoError(t, err)
		f.set(func() { f.fails["hello"], f.fails["open"] = "3F000", "3F000" })
		_, _, err = d.Open(t.Context())
		require.Error(t, err)
		require.Len(t, f.called("install"), 1)
	})
}

// The schema can't be created: a server that does not answer is given up, and a connection with a transaction that has
// failed is not used again.
func TestInstallFails(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.fails["hello"], f.hangs["install"] = "3F000", true
		require.NoError(t, d.Confirm(t.Context()))
		began := time.Now()
		_, _, err := d.Open(t.Context())
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
		require.Equal(t, d.config.limit(), time.Since(began))
		f.set(func() { f.hangs["install"], f.fails["install"] = false, "42501" })
		_, _, err = d.Open(t.Context())
		require.ErrorIs(t, err, store.ErrDenied)
		require.ErrorContains(t, err, "leadership schema postgres")
		dials := len(f.dials())
		f.set(func() { delete(f.fails, "hello") })
		_, _, err = d.Open(t.Context())
		require.NoError(t, err)
		require.Len(t, f.dials(), dials+1)
	})
}

// The rule of an outage: renewals that are not answered do not add up, however long it lasts.
func TestRenewalsDoNotAddUp(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		f.set(func() { f.stuck["a:1"] = true })
		f.drop()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Keep(ctx, func(engine.Proof) {}) }()
		time.Sleep(time.Hour)
		f.set(func() { f.stuck["a:1"] = false })
		time.Sleep(48 * time.Second) // for the tries that were under way
		synctest.Wait()
		require.LessOrEqual(t, len(f.called("renew")), renewals+12, "those that waited, and one each 4 s")
		stop()
		require.Error(t, <-ended)
	})
}

// After a failover the acknowledgements are sent again until they are answered. While they are not, renewals go on.
func TestAcknowledgingAgainHoldsUpNoRenewal(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		_, err = s.Acknowledge(t.Context(), engine.Entry{Token: 1}, "own")
		require.NoError(t, err)
		f.set(func() { f.fails["acknowledge"] = "54000" })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Keep(ctx, func(engine.Proof) {}) }()
		for range renewals + 1 {
			f.set(func() { f.epoch++ })
			f.drop()
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		before := len(f.called("renew"))
		time.Sleep(40 * time.Second)
		synctest.Wait()
		require.Equal(t, 10, len(f.called("renew"))-before)
		f.set(func() { delete(f.fails, "acknowledge") })
		time.Sleep(time.Second)
		synctest.Wait()
		acks := len(f.called("acknowledge"))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, f.called("acknowledge"), acks, "they were answered")
		stop()
		require.Error(t, <-ended)
	})
}

// A session whose opening was not answered is opened again by its name. Another one has another name.
func TestOpenAgain(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.fails["open"] = "57P01"
		var names []string
		open := func() error {
			_, _, err := d.Open(t.Context())
			names = append(names, f.args("open")[0])
			return err
		}
		require.ErrorIs(t, open(), store.ErrUnknownOutcome)
		require.Error(t, open())
		f.set(func() { delete(f.fails, "open") })
		require.NoError(t, open())
		require.NoError(t, open())
		require.Equal(t, names[0], names[1])
		require.Equal(t, names[0], names[2])
		require.NotEqual(t, names[0], names[3])
	})
}

// Answers that lack something, such as after TRUNCATE of a table, are no answers.
func TestAnswerLacksSomething(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		for _, answer := range [][]any{{"stands", nil, nil, nil, nil, nil, nil}, {"pause", nil, nil, nil, nil, nil, nil}, {"", nil, nil, nil, nil, nil, nil}} {
			f.answer["enter"] = one(answer...)
			_, err = s.Enter(t.Context(), "x", engine.Nonce{Name: "n"}, "own")
			require.ErrorIs(t, err, store.ErrUnknownOutcome, answer)
		}
		f.answer["acknowledge"] = one("done", nil)
		_, err = s.Acknowledge(t.Context(), engine.Entry{Token: 1}, "own")
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
	})
}
