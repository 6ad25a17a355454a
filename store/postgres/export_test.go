package postgres

import (
	"context"

	"github.com/go-leadership/leadership/store/engine"
)

// NewDriver returns a driver without an engine.
func NewDriver(config Config) (engine.Driver, error) {
	d, err := newDriver(config)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Setting returns what a setting is on the connections of a driver.
func Setting(ctx context.Context, d engine.Driver, name string) (string, error) {
	conn, err := d.(*driver).acquire(ctx)
	if err != nil {
		return "", err
	}
	defer d.(*driver).give(conn)
	var value string
	return value, conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&value)
}

// Losses returns how many connections a driver has lost.
func Losses(d engine.Driver) uint64 { return d.(*driver).losses.Load() }
