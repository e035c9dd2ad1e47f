package backlog

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A charge that ends just before it is lowered loses no give-back.
func TestLowerOfAChargeThatHasEnded(t *testing.T) {
	owed := func() (*Charge, *Holding) {
		c, h := NewCharge(), &Holding{Name: "x"}
		c.Add("x", exhaustRate, 2, 0)
		h.Owe(c, 2)
		assert.True(t, c.Send())
		return c, h
	}
	again := func(h *Holding) int64 {
		assert.Zero(t, h.Lower(0, 0))
		assert.Equal(t, int64(-2), h.Missing(0), "still to be lowered")
		h.Resolve(func([]byte) {})
		back := h.Lower(0, 0)
		assert.Equal(t, -back, h.Missing(0))
		return back
	}
	c, h := owed()
	other := NewCharge()
	c.MoveTo(other, 0)
	assert.Zero(t, again(h))
	assert.Zero(t, other.Total(), "what is not used is not charged")

	c, h = owed()
	c.Landed(nil, nil)
	assert.Equal(t, int64(2), again(h))
}
