package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Each kind of error has its exit code, also if it is wrapped.
func TestExitCodes(t *testing.T) {
	for err, want := range map[error]int{
		nil: 0, store.ErrInvalid: 64, store.ErrDenied: 77, store.ErrUnavailable: 69, context.DeadlineExceeded: 69,
		errors.ErrUnsupported: 70, errors.New("of its own"): 70, error(interrupted{2}): 130,
		error(&failure{code: 75, err: store.ErrDenied}): 75,
	} {
		if err != nil {
			err = fmt.Errorf("op: %w", &store.Error{Op: "op", Err: err})
		}
		code, _ := explain(err)
		require.Equal(t, want, code, "%v", err)
	}
}

// Scripts rely on assert: it says yes or no only if the store has answered.
func TestAssertCantTell(t *testing.T) {
	for err, want := range map[error]int{
		store.ErrDenied: 69, store.ErrUnavailable: 69, context.DeadlineExceeded: 69, errors.ErrUnsupported: 69, store.ErrClosed: 69,
		errors.New("of its own"): 69, store.ErrInvalid: 64, error(interrupted{2}): 130,
	} {
		code, _ := explain(cantTell(fmt.Errorf("op: %w", err)))
		require.Equal(t, want, code, "%v", err)
	}
}

// No error shows a password of the command line.
func TestWithoutPasswords(t *testing.T) {
	for text, want := range map[string]string{
		"unexpected argument etcd://me:s3cret@host/":     "unexpected argument etcd://host/",
		`"etcd://me:s3/cr@et@host:1,h2:2/p?ttl=1s" is x`: `"etcd://host:1,h2:2/p?ttl=1s" is x`,
		"etcd://host/ and a@b":                           "etcd://host/ and a@b",
	} {
		require.Equal(t, want, withoutPasswords(text))
	}
	for url, want := range map[string]bool{
		"etcd://me:s3cret@host/": true, "consul://:s3cret@host": true, "etcd://me:s%3Fcret@host/x": true,
		"etcd://me@host/?passwordenv=X": false, "etcd://host/a:b@c": false, "etcd://me:@host": false, "file:///x": false,
	} {
		require.Equal(t, want, hasPassword(url), url)
	}
}
