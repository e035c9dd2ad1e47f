package dynalimit

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What is left is rounded down, in debt too: half a token of debt is shown as one.
func TestRemainingIsRoundedDown(t *testing.T) {
	for millitokens, tokens := range map[int64]int64{-1001: -2, -1000: -1, -500: -1, -1: -1, 0: 0, 999: 0, 1000: 1} {
		assert.Equal(t, tokens, floorDiv(millitokens, milli), "%d", millitokens)
	}
}
