package file

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestEndOfASessionIsToldInOrder: an operator removes a ballot, and then the session of the one ahead ends. The owner is
// told of its own ballot first, or it would lead with a ballot that has gone.
func TestEndOfASessionIsToldInOrder(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	other, d := driverWith(t, c, kernel{}), driverWith(t, c, kernel{})
	ahead := &enterer{t: t, s: sessionOf(t, other)}
	ahead.enter()
	own := (&enterer{t: t, s: sessionOf(t, d)}).enter()

	var mu sync.Mutex
	var told []string
	note := func(what string) engine.Tell {
		return func(n engine.News) {
			mu.Lock()
			defer mu.Unlock()
			if n.Over || n.State != nil && n.State.Token == 0 {
				told = append(told, what)
			}
		}
	}
	for what, key := range map[string]string{"own": own.Key, "ahead": own.Place.Nearest} {
		w, err := d.WatchEntry(soon(t), key, note(what))
		require.NoError(t, err)
		defer w.Stop()
	}
	d.mu.Lock()
	m := d.monitors[ahead.s.ID()]
	d.mu.Unlock()

	one.reading.Lock() // no event is told
	_, _, name := splitKey(own.Key)
	require.NoError(t, os.Rename(d.dirOf("e").ballot(name), c.Directory+"/removed"))
	require.NoError(t, ahead.s.(*session).remove())
	checked := make(chan struct{})
	go func() { m.check(); close(checked) }() // as the deadline does
	select {
	case <-checked:
		t.Error("the end of the session was told before what had happened earlier")
	case <-time.After(50 * time.Millisecond): // it waits for what is read
	}
	one.reading.Unlock()
	<-checked
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, "own", told[0])
	require.Contains(t, told, "ahead")
}
