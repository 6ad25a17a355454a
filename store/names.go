package store

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits that hold for every store, so that all stores take the same names and values.
const (
	MaxElection = 200       // bytes of an election's name
	MaxValue    = 128 << 10 // bytes of a candidate's value: 128 KiB
)

// CheckElection reports, with a [FieldError], why the name of an election can't be used; nil if it can.
//
// A name is one or more parts joined by "/". It is valid UTF-8 in any script of Unicode's basic plane, spaces
// included, at most [MaxElection] bytes. The rest of the rule makes sure that no two names meet in any store, and
// that none meets the keys which stores keep for themselves:
//
//   - no empty part, and no part "." or "..": some stores would clean the path;
//   - no part that begins with "_": stores keep their own keys there (etcd and Consul the ballots);
//   - no "__": the ZooKeeper layout writes it for "/";
//   - no control, private-use or replacement characters and none outside the basic plane: ZooKeeper refuses them;
//   - no character that is not printed, nor any space but the plain one: Consul's agent refuses them.
func CheckElection(name string) error {
	switch {
	case name == "":
		return invalid("election", name, "the name is empty")
	case len(name) > MaxElection:
		return invalid("election", name, "the name has %d bytes, more than %d", len(name), MaxElection)
	case !utf8.ValidString(name):
		return invalid("election", name, "the name is not valid UTF-8")
	case strings.Contains(name, "__"):
		return invalid("election", name, `"__" stands for "/" in the ZooKeeper layout`)
	}
	for _, r := range name {
		if reason := unusable(r); reason != "" {
			return invalid("election", name, "%U is %s", r, reason)
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "":
			return invalid("election", name, `it begins or ends with "/" or has "//" in it`)
		case part == "." || part == "..":
			return invalid("election", name, "%q is not a name between slashes", part)
		case part[0] == '_':
			return invalid("election", name, `a part begins with "_", which stores keep for themselves`)
		}
	}
	return nil
}

// unusable returns why a character can't stand in a name, or "" if it can. The ranges are those of ZooKeeper's
// PathUtils.validatePath, which sees a character outside the basic plane as two surrogates, and refuses those. Consul's
// agent refuses paths with characters that are not printable by unicode.IsPrint, which differs between versions of
// Unicode.
func unusable(r rune) string {
	switch {
	case r <= 0x1f, r >= 0x7f && r <= 0x9f:
		return "a control character"
	case r >= 0xe000 && r <= 0xf8ff:
		return "a private-use character"
	case r > 0xffff:
		return "outside Unicode's basic plane"
	case r >= 0xfff0:
		return "a special character"
	case !unicode.IsPrint(r):
		return "not printable"
	}
	return ""
}

// CheckValue reports, with a [FieldError], why a candidate's value can't be used. It may be any bytes, or empty.
func CheckValue(value string) error {
	if len(value) > MaxValue {
		return &FieldError{Field: "value", Reason: fmt.Sprintf("it has %d bytes, more than %d", len(value), MaxValue)}
	}
	return nil
}
