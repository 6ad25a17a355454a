package zookeeper

import (
	"fmt"

	"github.com/go-leadership/leadership/internal/hostport"
)

// Format implements fmt.Formatter: it prints the settings with any verb, and stars instead of the password, and of
// servers that Open would refuse: they might hold a whole URL with a password.
func (c Config) Format(f fmt.State, verb rune) {
	type config Config // without this method
	if c.Password != "" {
		c.Password = "***"
	}
	c.Servers = hostport.Hide(c.Servers)
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), config(c))
}
