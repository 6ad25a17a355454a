package store

import "context"

// Clearer is what a store implements that can remove what its service keeps of elections, for operators and for tests
// on a service that others use too. All stores of this module do.
type Clearer interface {
	// Clear removes all that the service keeps of an election, whoever made it: the ballots, so that their candidates
	// stand again, and the acknowledgement. Where the name is empty it removes everything in the store's own place in
	// the service, the place itself included. Tokens go on growing. It blocks until all is known to be gone.
	Clear(ctx context.Context, election string) error
}
