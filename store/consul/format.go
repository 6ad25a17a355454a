package consul

import (
	"fmt"

	"github.com/go-leadership/leadership/internal/hostport"
)

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
