package store

import "context"

// Resigner is implemented by stores through which an operator can ask a leader to resign. It is optional.
type Resigner interface {
	// RequestResignation asks the owner of the ballot with this token to resign: see [Store.Ballots] for the tokens that
	// stand. The leader's work is stopped first, and then it gives its ballot back, so that no two leaders overlap. The
	// owner of a ballot that still waits gives it back when it is first.
	//
	// It returns nil once the service keeps the request, and also if no such ballot stands. It does not wait for the
	// resignation. The request does not apply to later ballots of the same owner. A ballot of another program's recipe,
	// [Standing].Foreign, is refused with [errors.ErrUnsupported].
	RequestResignation(ctx context.Context, election string, token uint64) error
}

// Resigning is implemented by the ballots of a [Resigner].
type Resigning interface {
	// ResignationRequested is closed when the store learns of a request to resign.
	ResignationRequested() <-chan struct{}
}
