//go:build !linux

package localdir

import "os"

// Temp returns the directory for temporary files.
func Temp() string { return os.TempDir() }
