package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Boards that were first read at once are asked for ahead at different ages, in the fourth
// fifth of their time: else their queries come together for ever.
func TestBoardsAreNotRenewedTogether(t *testing.T) {
	const fresh = 5 * time.Second
	l := &Ledger{Options: Options{Fresh: fresh}}
	ages := map[time.Duration]bool{}
	for range 100 {
		b := newBoard(l, "app")
		ages[b.renewAfter] = true
		assert.GreaterOrEqual(t, b.renewAfter, fresh/5*3)
		assert.LessOrEqual(t, b.renewAfter, fresh/5*4)
	}
	assert.Greater(t, len(ages), 90)
}
