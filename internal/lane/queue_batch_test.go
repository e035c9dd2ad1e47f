package lane

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A write takes interactive calls before batch calls, each in order of arrival.
func TestBatchCallsComeLast(t *testing.T) {
	cfg := rpmOf(100)
	take := func(batch bool) *Op {
		o := NewTake(t.Context(), oneToken, cfg)
		o.Batch = batch
		return o
	}
	ops := []*Op{take(true), take(false), take(true), take(false)}
	var q queue
	q.ops = append(q.ops, ops...)
	assert.Equal(t, []*Op{ops[1], ops[3], ops[0], ops[2]}, q.nextOfSeveral(false).takes)
	ops[0].cfg = rpmOf(200)
	assert.Equal(t, ops[:1], q.nextOfSeveral(false).takes, "the oldest has a configuration of its own")
}
