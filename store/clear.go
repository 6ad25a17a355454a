package store

import "context"

// Clearer is implemented by stores that can remove what the service keeps of elections, for operators and for tests on
// a shared service. All stores of this module implement it.
type Clearer interface {
	// Clear removes all that the service keeps of an election, of every process: the ballots, so that their candidates
	// stand again, and the acknowledgement. If the name is empty it removes all keys below the store's path, and the
	// path itself. Tokens go on growing. It blocks until all is known to be gone.
	Clear(ctx context.Context, election string) error
}
