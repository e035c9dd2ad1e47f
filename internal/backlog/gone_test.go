package backlog

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What was debited in a bucket that is gone stays consumed; what was taken since
// goes back first, and what is gone goes nowhere.
func TestGone(t *testing.T) {
	h := Holding{Name: "tpm"}
	h.Charged(50)
	h.Bereave()
	h.Charged(20)
	assert.Equal(t, int64(70), h.Used())
	assert.Equal(t, int64(5), h.Missing(75))
	assert.Zero(t, h.Missing(70))
	back := h.Lower(65, 0)
	assert.Equal(t, int64(5), back)
	h.GivenBack(back)
	assert.Equal(t, int64(65), h.Used())

	more := Holding{Name: "tpm", Gone: 1}
	h.Join(&more)
	assert.Equal(t, int64(66), h.Used())

	back = h.Lower(40, 0)
	assert.Equal(t, int64(15), back, "all of the new one's")
	h.GivenBack(back)
	assert.Equal(t, int64(40), h.Used(), "the rest went with the first")
	assert.Zero(t, h.Missing(40))
	assert.Zero(t, h.Lower(0, 0))
	assert.Zero(t, h.Used())
	assert.Equal(t, int64(10), h.Missing(10), "charged anew")
}

// A bucket may be known to be gone before it is known that a give-back to it was
// dropped with it: the rest stays, whichever is heard first.
func TestGoneBeforeItsGiveBackIsBooked(t *testing.T) {
	for name, book := range map[string]func(*Holding){
		"given back":  func(h *Holding) { h.GivenBack(60) },
		"never known": func(h *Holding) { h.GaveInVain(60) },
	} {
		h := Holding{Name: "tpm"}
		h.Charged(100)
		h.Bereave()
		book(&h)
		assert.Zero(t, h.Held, name)
		assert.Equal(t, int64(40), h.Used(), name)
	}
}

// What may have been charged counts as consumed: it is not charged again, and not
// given back.
func TestDoubtCounts(t *testing.T) {
	h := Holding{Name: "tpm"}
	h.Charged(10)
	h.Doubted(5)
	for target, missing := range map[int64]int64{20: 5, 15: 0, 12: 0, 10: 0, 4: -6} {
		assert.Equal(t, missing, h.Missing(target), "%d", target)
	}
}
