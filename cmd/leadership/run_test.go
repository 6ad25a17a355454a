package main

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// mute is a store whose Close blocks.
type mute struct {
	store.Store
	answer chan error
}

func (m mute) Close() error { return <-m.answer }

// The program ends also if closing the store blocks.
func TestCloseSoon(t *testing.T) {
	for asked, patience := range map[bool]time.Duration{true: withdrawal, false: testTTL} {
		virtual(t, func(w *world) {
			st := mute{w.store, make(chan error)}
			time.AfterFunc(time.Hour, func() { st.answer <- nil })
			require.EqualError(w, closeSoon(st, asked), "the store does not answer")
			require.Equal(w, patience, w.now())
			w.at(time.Hour)
		})
	}
}
