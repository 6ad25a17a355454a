package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// floor is two connections. One commits a change of a row that notifies; the other one listens.
type floor struct{ writer, reader *pgx.Conn }

func newFloor(tb testing.TB, s *server) *floor {
	tb.Helper()
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(context.Background(), s.url(observer, s.address()))
		require.NoError(tb, err)
		tb.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	f := &floor{connect(), connect()}
	s.exec(tb, "CREATE TABLE floor (name text PRIMARY KEY, value bigint)")
	s.exec(tb, "INSERT INTO floor VALUES ('a', 0)")
	_, err := f.reader.Exec(context.Background(), "LISTEN floor")
	require.NoError(tb, err)
	return f
}

// measure measures from the statement until the other connection has the notification.
func (f *floor) measure(b *testing.B) time.Duration {
	told := make(chan victory, 1)
	failed := make(chan error, 1)
	go func() {
		_, err := f.reader.WaitForNotification(b.Context())
		told <- victory{at: time.Now()}
		failed <- err
	}()
	settle()
	start := time.Now()
	_, err := f.writer.Exec(b.Context(),
		"WITH change AS (UPDATE floor SET value = value + 1 RETURNING value) SELECT pg_notify('floor', value::text) FROM change")
	require.NoError(b, err)
	at := receive(b, told, "the notification").at
	require.NoError(b, receive(b, failed, "the reader"))
	return at.Sub(start)
}

// settle waits until what was sent before has passed, and the candidates wait. All that is compared waits as long, since
// right after other requests everything is faster.
func settle() { time.Sleep(200 * time.Millisecond) }
