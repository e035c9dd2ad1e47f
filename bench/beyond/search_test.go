package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Every state of small trees: what is admitted exceeds the burst by the refill of the
// horizons' sum where each level counts a token's age anew, and of the longest where
// the age is carried down; both are reached.
func TestExcessOfATreeIsBounded(t *testing.T) {
	for _, c := range bounded() {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			f := c.search(mostStates)
			assert.True(t, f.complete)
			assert.Equal(t, c.bound(), f.worst)
		})
	}
}

// What is given back anywhere as a young token, or to the root, breaks the bound.
func TestWhatIsGivenBackBreaksTheBound(t *testing.T) {
	for _, c := range unbounded() {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			assert.Greater(t, c.search(mostStates).worst, c.bound())
		})
	}
}
