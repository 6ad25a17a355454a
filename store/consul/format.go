package consul

import (
	"fmt"

	"github.com/go-leadership/leadership/internal/hostport"
	"github.com/go-leadership/leadership/internal/opaque"
)

// String returns the store's URL without credentials and options: what errors and logs name the store by.
func (s *Store) String() string { return s.life.Name }

// Format implements fmt.Formatter: with every verb it prints what String returns.
func (s *Store) Format(f fmt.State, verb rune) { opaque.Format(f, verb, s.life.Name) }

// Format implements fmt.Formatter: it prints the settings with any verb, and stars instead of the token, and of
// addresses that Open would refuse: they might hold a whole URL with a password.
func (c Config) Format(f fmt.State, verb rune) {
	type config Config // without this method
	if c.Token != "" {
		c.Token = "***"
	}
	c.Addresses = hostport.Hide(c.Addresses)
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), config(c))
}
