package adapter

import (
	"errors"
	"fmt"

	"github.com/go-leadership/leadership/store"
)

// Condition returns the condition that a ballot stands. T is its type, which tells the ballots of the store from those of
// others: they are refused with errors.ErrUnsupported.
func Condition[T any](b store.Ballot, service string) (condition T, err error) {
	if b, ok := b.(interface{ Condition() (any, error) }); ok {
		found, err := b.Condition()
		if err != nil {
			return condition, err
		}
		if condition, ok := found.(T); ok {
			return condition, nil
		}
	}
	return condition, fmt.Errorf("fence: %w: this needs a ballot of the store for %s", errors.ErrUnsupported, service)
}
