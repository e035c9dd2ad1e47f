package lane

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A bucket is quiet since it was last heard, and not while nothing is asked of it.
func TestContactIsQuietWhileItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, began := Contact{table: &answers}, time.Now()
		<-time.After(time.Second)
		assert.Equal(t, time.Second, c.Quiet(began))
		c.NoteAnswer()
		<-time.After(300 * time.Millisecond)
		assert.Equal(t, 300*time.Millisecond, c.Quiet(began))
		c.pause()
		<-time.After(time.Second)
		assert.Zero(t, c.Quiet(began), "it waits for its turn")
		c.resume()
		<-time.After(100 * time.Millisecond)
		assert.Equal(t, 100*time.Millisecond, c.Quiet(began))
	})
}

// Who waits for a silent bucket goes on when it answers again, or the limiter is closed.
func TestContactIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Contact{table: &answers}
		assert.True(t, c.await(t.Context()), "it answers")
		assert.Nil(t, c.Back())
		c.Suspect()
		c.lose()
		assert.True(t, c.Away())
		assert.False(t, c.Suspected(), "it is known now")
		back := c.Back()
		go func() { <-time.After(time.Second); c.regain() }()
		assert.True(t, c.await(t.Context()))
		<-back
		assert.False(t, c.Away())
	})
}
