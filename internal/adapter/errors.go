package adapter

import (
	"fmt"

	"github.com/go-leadership/leadership/store"
)

// ErrClosed is why the ballots of a store that was closed are lost.
var ErrClosed = fmt.Errorf("%w: %w", store.ErrLost, store.ErrClosed)

// ErrSessionEnded is why ballots are lost whose session is known to be over.
var ErrSessionEnded = fmt.Errorf("%w: the session has ended", store.ErrLost)
