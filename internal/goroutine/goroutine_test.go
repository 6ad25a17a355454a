package goroutine_test

import (
	"sync"
	"testing"

	"github.com/go-leadership/leadership/internal/goroutine"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHasWithinDo(t *testing.T) {
	var set goroutine.Set
	require.False(t, set.Has(), "the zero value is empty")
	called := false
	set.Do(func() { called = set.Has() })
	require.True(t, called)
	require.False(t, set.Has())
}

func TestDoWithinDo(t *testing.T) {
	var set goroutine.Set
	set.Do(func() {
		set.Do(func() { require.True(t, set.Has()) })
		require.True(t, set.Has(), "the outer call goes on")
	})
	require.False(t, set.Has())
}

func TestSetsAreApart(t *testing.T) {
	var one, other goroutine.Set
	one.Do(func() {
		require.False(t, other.Has())
		other.Do(func() {
			require.True(t, one.Has())
			require.True(t, other.Has())
		})
		require.False(t, other.Has())
		require.True(t, one.Has())
	})
}

// A goroutine that a function starts is not in the set: it may outlive the function, and nobody waits for it.
func TestGoroutinesOfTheFunctionAreNotInTheSet(t *testing.T) {
	var set goroutine.Set
	set.Do(func() {
		has := make(chan bool)
		go func() { has <- set.Has() }()
		require.False(t, <-has)
		require.True(t, set.Has())
	})
}

func TestPanicLeavesTheSet(t *testing.T) {
	var set goroutine.Set
	require.PanicsWithValue(t, "boom", func() { set.Do(func() { panic("boom") }) })
	require.False(t, set.Has())
}

// A later goroutine is never taken for an earlier one, however many there are.
func TestManyGoroutinesAtOnce(t *testing.T) {
	var set goroutine.Set
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			if set.Has() {
				t.Error("a new goroutine is in the set")
			}
			for range i % 3 {
				set.Do(func() {
					if !set.Has() {
						t.Error("it is not in the set")
					}
				})
			}
			if set.Has() {
				t.Error("it is still in the set")
			}
		})
	}
	all.Wait()
	require.False(t, set.Has())
}

func TestHasOnADeepStack(t *testing.T) {
	var set goroutine.Set
	var deep func(n int) bool
	deep = func(n int) bool {
		if n == 0 {
			return set.Has()
		}
		return deep(n - 1)
	}
	set.Do(func() { require.True(t, deep(10_000)) })
	require.False(t, deep(10_000))
}
