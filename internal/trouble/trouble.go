// Package trouble lets a store say why a call has no answer so far, while the call goes on: a Cast waits for seconds
// before it gives up, and a wrong address is known at once.
package trouble

import "context"

type key struct{}

// With returns a context for a call of Cast. The store reports each request without an answer, whichever call has sent it,
// for as long as the call goes on. The function must not block, nor call the store.
func With(ctx context.Context, report func(error)) context.Context {
	return context.WithValue(ctx, key{}, report)
}

// Of returns the function of the context of a call, or nil if it has none.
func Of(ctx context.Context) func(error) {
	report, _ := ctx.Value(key{}).(func(error))
	return report
}
