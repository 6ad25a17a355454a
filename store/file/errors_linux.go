package file

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// missing reports whether something does not exist.
func missing(err error) bool { return errors.Is(err, syscall.ENOENT) }

// taken reports whether something exists already. rename returns such an error for a directory that is not empty.
func taken(err error) bool {
	return errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.ENOTEMPTY)
}

// denied reports whether the process may not do something, now or ever.
func denied(err error) bool {
	return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EROFS)
}

// explained are errors that already show their kind.
var explained = []error{
	engine.ErrOver, engine.ErrGone, store.ErrUnavailable, store.ErrUnknownOutcome, store.ErrDenied, store.ErrInvalid,
}

// explain adds the kind to an error of a system call. A call that failed has changed nothing.
func explain(err error) error {
	switch {
	case err == nil, slices.ContainsFunc(explained, func(kind error) bool { return errors.Is(err, kind) }):
		return err
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w; the directory has to be on a file system that is mounted for writing", store.ErrDenied, err)
	case denied(err):
		return fmt.Errorf("%w: %w; candidates need to read and write the directory and all in it, as its owner or group",
			store.ErrDenied, err)
	case errors.Is(err, syscall.EMFILE):
		return engine.Answered(fmt.Errorf("%w: %w; raise the process's limit of open files (ulimit -n)", store.ErrUnavailable, err))
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.ENFILE):
		return engine.Answered(fmt.Errorf("%w: %w", store.ErrUnavailable, err)) // what needs no space goes on
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}
