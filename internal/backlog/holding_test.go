package backlog

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What is lowered comes off what was counted first, then off doubt, then off what is held;
// what is gone stays consumed. What is raised is charged, but for what is consumed already.
func TestWhatIsLoweredComesOffCountsFirst(t *testing.T) {
	h := Holding{Held: 10, Counted: 20, Doubt: 3, Gone: 5}
	for target, want := range map[int64]Correction{
		45: {Charge: 7},
		38: {},
		30: {Uncount: 8},
		18: {Uncount: 20},
		16: {Uncount: 20, GiveUp: 2},
		9:  {Uncount: 20, GiveUp: 3, Back: 6},
		0:  {Uncount: 20, GiveUp: 3, Back: 10},
	} {
		assert.Equal(t, want, h.To(target), target)
	}
}
