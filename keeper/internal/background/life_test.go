package background

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// After Close only what belongs to closing begins, and Wait is for that too.
func TestNothingBeginsAfterClose(t *testing.T) {
	l := New()
	assert.True(t, l.Begin(false))
	assert.False(t, l.Closed())
	l.Close()
	assert.True(t, l.Closed())
	assert.False(t, l.Begin(false))
	assert.True(t, l.Begin(true))
	waited := make(chan struct{})
	go func() { l.Wait(); close(waited) }()
	l.Done()
	select {
	case <-waited:
		t.Error("a task goes on")
	default:
	}
	l.Done()
	<-waited
	assert.NoError(t, l.Context().Err(), "writes go on until Cancel")
	l.Cancel()
	assert.Error(t, l.Context().Err())
}
