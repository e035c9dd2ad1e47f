package backlog

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// minutely refills its burst in a minute.
var minutely = bucket.Rate{Burst: 60, Amount: 60, Period: 60_000}

// What is given back does not make room for more than the burst.
func TestGiveEmptiesAQueueAtMost(t *testing.T) {
	var q Queue
	q.Fill(minutely, 20, 0)
	q.Give(minutely, 50, 0)
	assert.Zero(t, q.Level(minutely, 0))
	q.Fill(minutely, 60, 0)
	wait, fits := q.Fits(minutely, 1, 0)
	assert.False(t, fits)
	assert.Equal(t, int64(1000), wait)
}

// What could not be written is charged later: the counter all of it, the tokens
// what the bucket did not refill meanwhile, without what was given back.
func TestMovedChargeRefillsMeanwhile(t *testing.T) {
	c, later := NewCharge(), NewCharge()
	h := Holding{Name: "tpm"}
	require.True(t, c.Add("tpm", minutely, 60, 0))
	h.Owe(c, 60)
	require.True(t, c.Send())
	require.Zero(t, h.Lower(50, 0))
	c.MoveTo(later, 30_000)
	assert.Equal(t, []Due{{Name: "tpm", Tokens: 20, Count: 50}}, later.Due(30_000))
	assert.Equal(t, []Due{{Name: "tpm", Tokens: 0, Count: 50}}, later.Due(60_000))
}

// A charge that carries nothing is not sent, and one that was sent is not sent again.
func TestChargeOfNothingIsNotSent(t *testing.T) {
	c, h := NewCharge(), Holding{Name: "tpm"}
	assert.False(t, c.Send())
	require.True(t, c.Add("tpm", minutely, 10, 0))
	h.Owe(c, 10)
	require.Zero(t, h.Lower(0, 0))
	assert.True(t, c.Empty())
	assert.False(t, c.Send())
	require.True(t, c.Add("tpm", minutely, 10, 0))
	assert.True(t, c.Send())
	assert.False(t, c.Send())
}
