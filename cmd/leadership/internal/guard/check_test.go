package guard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMargins(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		time.Second: 500 * time.Millisecond, 5 * time.Second: 500 * time.Millisecond, 20 * time.Second: 2 * time.Second,
	} {
		m1, m2 := margins(ttl)
		require.Equal(t, want, m1)
		require.Equal(t, want/2, m2)
	}
}

func TestCheck(t *testing.T) {
	valid := Config{Command: []string{"/bin/sh"}, TTL: 9 * time.Second, RenewEvery: 2 * time.Second, Mode: UnguardedMode()}
	valid.StopTimeout = 6100 * time.Millisecond // 9 s − 900 ms − 2 s
	require.NoError(t, valid.Check())
	require.Equal(t, valid.StopTimeout, valid.MaxStopTimeout())
	for message, change := range map[string]func(*Config){
		"no command":                 func(c *Config) { c.Command = nil },
		"must be positive":           func(c *Config) { c.TTL = 0 },
		"not negative":               func(c *Config) { c.StopTimeout = -1 },
		"it is at most 6.1s":         func(c *Config) { c.StopTimeout += time.Millisecond },
		"it is at most 5.1s":         func(c *Config) { c.RenewEvery = 0 },
		"is too short":               func(c *Config) { c.TTL, c.RenewEvery, c.StopTimeout = 600*time.Millisecond, 0, 0 },
		"Mode is missing":            func(c *Config) { c.Mode = Mode{} },
		"strict needs":               func(c *Config) { c.Strict = true },
		"gives none (for a reason)":  func(c *Config) { c.Strict, c.Mode = true, subreaperMode("for a reason") },
		"run surely-no-such-command": func(c *Config) { c.Command = []string{"surely-no-such-command"} },
	} {
		c := valid
		change(&c)
		require.ErrorContains(t, c.Check(), message)
	}
	valid.Strict, valid.Mode = true, namespaceMode(true)
	require.NoError(t, valid.Check())
}
