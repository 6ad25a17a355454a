// Package filefaults lets package conformance open a directory on a line with faults, without importing store/file.
package filefaults

import "github.com/go-leadership/leadership/store"

// Open opens the store of a file URL on a line with faults: the store has the methods of conformance.Faults. Package
// store/file sets it; it is nil in a program without that, and on other systems than Linux.
var Open func(u *store.URL) (store.Store, error)
