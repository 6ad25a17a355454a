package store

import "os"

// ProcessBound is implemented by the ballots of a store whose sessions can end as soon as their process is gone, and
// not only after their TTL. It is optional.
type ProcessBound interface {
	// SessionFile returns an open file that keeps the ballot's session from ending with this process: as long as some
	// process has the file open, the session goes on until its deadline. Give it to a child process whose work has to
	// be over before another candidate leads. The file has no other use, and does not keep a session that is closed or
	// lost. The caller closes it. It is nil if the session does not end with its process. An error matches ErrLost if
	// the session is over.
	SessionFile() (*os.File, error)
}
