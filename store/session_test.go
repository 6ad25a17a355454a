package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestCheckSession(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		ttl, grace time.Duration
		want       string // the error, or the settings as they are completed
	}{
		{0, 0, "10s 3.333333333s"},
		{0, time.Second, "10s 1s"},
		{6 * time.Second, 0, "6s 2s"},
		{ms, 0, "1ms 333.333µs"},
		{12 * time.Second, time.Second, "12s 1s"},
		{12 * time.Second, 6*time.Second - 1, "12s 5.999999999s"},
		{-ms, 0, `invalid ttl "-1ms": not a multiple of 1ms from 1ms to 1m0s`},
		{time.Minute + ms, 0, `invalid ttl "1m0.001s": not a multiple of 1ms from 1ms to 1m0s`},
		{1500 * time.Microsecond, 0, `invalid ttl "1.5ms": not a multiple of 1ms from 1ms to 1m0s`},
		{12 * time.Second, time.Second - 1, `invalid grace "999.999999ms": not from a twelfth to below half of the ttl 12s`},
		{12 * time.Second, 6 * time.Second, `invalid grace "6s": not from a twelfth to below half of the ttl 12s`},
		{0, -1, `invalid grace "-1ns": not from a twelfth to below half of the ttl 10s`},
	} {
		err := store.CheckSession(&c.ttl, &c.grace, ms, time.Minute, ms)
		if err == nil {
			require.Equal(t, c.want, c.ttl.String()+" "+c.grace.String())
			continue
		}
		require.EqualError(t, err, c.want)
		require.ErrorIs(t, err, store.ErrInvalid)
	}
}

func TestSessionOptions(t *testing.T) {
	for raw, want := range map[string]string{
		"z://h":                  "10s 3.333333333s",
		"z://h?ttl=30s":          "30s 10s",
		"z://h?ttl=30s&grace=5s": "30s 5s",
		"z://h?grace=1s":         "10s 1s",
	} {
		u, err := store.ParseURL(raw)
		require.NoError(t, err)
		ttl, grace := u.Session()
		require.NoError(t, u.Check())
		require.Equal(t, want, fmt.Sprint(ttl, " ", grace))
	}
	for _, raw := range []string{"z://h?ttl=0s", "z://h?grace=0s", "z://h?ttl=x", "z://h?grace="} {
		u, err := store.ParseURL(raw)
		require.NoError(t, err)
		u.Session()
		require.ErrorIs(t, u.Check(), store.ErrInvalid, raw)
	}
}
