package store_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// The user and the password of these tests. Neither is part of any text of the package.
const plantedUser, plantedPassword = "aL1ce", "hUnter2"

// shown returns the texts that a program may print of a URL: the errors, and what stands for the store in logs.
func shown(raw string) []string {
	u, err := store.ParseURL(raw)
	if err != nil {
		return []string{fmt.Sprintf("%v %#v", err, err)}
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("open", "store", u)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("open", "store", u)
	texts := []string{log.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		texts = append(texts, fmt.Sprintf(verb, u), fmt.Sprintf(verb, *u), fmt.Sprintf(verb, struct{ U store.URL }{*u}))
	}
	u.Duration("ttl", 0)
	if err := u.Check(); err != nil {
		texts = append(texts, err.Error())
	}
	if _, err := store.Open(context.Background(), raw, nil); err != nil { // the scheme is not registered
		texts = append(texts, err.Error())
	}
	return texts
}

func requireNoSecret(t *testing.T, raw string) {
	t.Helper()
	for _, text := range shown(raw) {
		require.NotContains(t, text, plantedPassword, "%q", raw)
		require.NotContains(t, text, plantedUser, "%q", raw)
	}
}

// TestNoSecretIsShown has a user and a password in the right place, and a fault in the rest of the URL, or in their
// characters that should have been escaped.
func TestNoSecretIsShown(t *testing.T) {
	both := plantedUser + ":" + plantedPassword
	for _, raw := range []string{
		"z://" + both + "@h:1,i/p?ttl=10s",
		"z://" + both + "@",
		"z://" + both + "@/p",
		"z://" + both + "@h:x",
		"z://" + both + "@h:1:2",
		"z://" + both + "@h,,i",
		"z://" + both + "@h h",
		"z://" + both + "@[::1",
		"z://" + both + "@h/%",
		"z://" + both + "@h?ttl=x&ttl=y",
		"z://" + both + "@h?ttl=x",
		"z://" + both + "@h?nonsense=1",
		"z://" + both + "@h?%zz",
		"z://" + both + "@h?a;b",
		"z://" + both + "@h#",
		"z://" + both + "@@h",
		"z://" + both + ":@h",
		"z://" + both + "%@h",
		"z://" + both + "%zz@h:x",
		"z://" + both + "%00@h:x",
		"z://%" + both + "@h",
		"z://" + plantedUser + "%zz:" + plantedPassword + "@h",
		"z://" + plantedUser + "@h:x",
		"z://" + plantedUser + "@" + plantedPassword + "@h:x",
		"z://:" + plantedPassword + "@h:x",
		"z://a,b:c," + both + "@h:x",
		both + "@h",
		both + "@z://h",
		"z:" + both + "@h",
		"z:/" + both + "@h",
		"//" + both + "@h",
		"://" + both + "@h",
		"z " + "://" + both + "@h",
		"z:" + both + "://h",
	} {
		t.Run(raw, func(t *testing.T) { requireNoSecret(t, raw) })
	}
}

// TestNoSecretIsShownWhereItWasNotEscaped: sooner or later a generated password contains "/", "?" or "#". If it is
// pasted without escapes, logs must not show it.
func TestNoSecretIsShownWhereItWasNotEscaped(t *testing.T) {
	for _, c := range "/?#@:,;&=+ %[]\\\"\n" {
		for _, raw := range []string{
			fmt.Sprintf("z://%s:%s%c%s@h:1/p?ttl=10s", plantedUser, plantedPassword, c, plantedPassword),
			fmt.Sprintf("z://%s:%c%s@h:1/p?ttl=10s", plantedUser, c, plantedPassword),
			fmt.Sprintf("z://%s:1%c%s@h:1/p?ttl=10s", plantedUser, c, plantedPassword),
			fmt.Sprintf("z://%s:%s%c@h:1", plantedUser, plantedPassword, c),
			fmt.Sprintf("z://%c%s:%s@h:1", c, plantedUser, plantedPassword),
			fmt.Sprintf("z://%s%c:%s@h:1", plantedUser, c, plantedPassword),
		} {
			t.Run(raw, func(t *testing.T) { requireNoSecret(t, raw) })
		}
	}
}

// TestNoSecretIsShownWhereTheHostWasForgotten: without "@" the user and the password stand where a host should.
func TestNoSecretIsShownWhereTheHostWasForgotten(t *testing.T) {
	for _, raw := range []string{
		"z://" + plantedUser + ":" + plantedPassword,
		"z://" + plantedUser + ":" + plantedPassword + "/p?ttl=10s",
		"z://" + plantedUser + ":" + plantedPassword + ",h:1",
	} {
		t.Run(raw, func(t *testing.T) { requireNoSecret(t, raw) })
	}
}

// FuzzParseURLShowsNoSecret puts the secret before an "@", among arbitrary text.
func FuzzParseURLShowsNoSecret(f *testing.F) {
	for _, rest := range []string{"h", "h:1,i:2/p?ttl=10s", "h:x", "h/%", "", "[::1]:1", "h?a=1&a=2", "h?%", "@h", "h#"} {
		for _, junk := range []string{"", "%", "%zz", "@", ":", ",", " ", "/", "?", "#", "/?", "1/", "1?"} {
			f.Add(junk, junk, rest)
		}
	}
	f.Fuzz(func(t *testing.T, inUser, inPassword, rest string) {
		for _, junk := range []string{inUser, inPassword, rest} {
			if strings.Contains(junk, plantedUser) || strings.Contains(junk, plantedPassword) {
				return
			}
		}
		requireNoSecret(t, "z://"+plantedUser+inUser+":"+inPassword+plantedPassword+"@"+rest)
	})
}
