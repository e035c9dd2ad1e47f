package aggregator_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestRepeatedRecordThatSeemsToFollow: a record that comes again, and begins with what the
// counter has come back to since, counts once all the same.
func TestRepeatedRecordThatSeemsToFollow(t *testing.T) {
	o := newOffice(t, noon, nil)
	grew, back := record(2, noon, 5, 8), record(3, noon, 8, 5)
	process(t, o.p, record(1, noon, -1, 5), grew, back)
	assert.Equal(t, 1, process(t, o.p, grew).Repeated)
	assert.EqualValues(t, 5, o.total())
	assert.Equal(t, 2, process(t, o.p, grew, back).Repeated)
	assert.EqualValues(t, 5, o.total())
}
