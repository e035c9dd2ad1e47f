package backlog

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A charge may land without a limit that is gone: nothing of it is held, so that
// nothing of it is given back.
func TestLimitThatWasGoneIsNotHeld(t *testing.T) {
	c := NewCharge()
	holdings := map[string]*Holding{"x": {Name: "x"}, "y": {Name: "y"}}
	for name, h := range holdings {
		c.Add(name, exhaustRate, 2, 0)
		h.Owe(c, 2)
	}
	assert.True(t, c.Send())
	for _, h := range holdings {
		assert.Zero(t, h.Lower(1, 0), "the charge gives it back once it has landed")
	}
	assert.Equal(t, []Refund{{Name: "x", Amount: 1}}, c.Landed(nil, []string{"y"}))
	for _, h := range holdings {
		h.Resolve(func([]byte) {})
	}
	assert.Equal(t, Holding{Name: "x", Held: 1, owed: []chargePart{}}, *holdings["x"])
	assert.Equal(t, Holding{Name: "y", Doubt: 1, owed: []chargePart{}}, *holdings["y"])
}
