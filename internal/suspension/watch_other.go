//go:build !linux

package suspension

import "errors"

func open() (events, error) { return nil, errors.ErrUnsupported }
