//go:build !linux

package lifeline

import (
	"errors"
	"log/slog"
	"os"
	"time"
)

var errSystem = errors.New("there are lifelines on Linux alone")

// Client does nothing on this system.
type Client struct{}

// Check refuses every place.
func Check(string) error { return errSystem }

// Open refuses.
func Open(string, string, time.Duration, func() (Service, error), *slog.Logger) (*Client, error) {
	return nil, errSystem
}

// Add does nothing.
func (*Client) Add(string, []byte) {}

// Drop does nothing.
func (*Client) Drop(string) {}

// File returns no file.
func (*Client) File() (*os.File, error) { return nil, errSystem }

// Close does nothing.
func (*Client) Close() {}

// Main does nothing.
func Main() {}
