package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// Each request of a call that gets a dead connection is sent again, within half a second, and
// nobody is admitted by a policy.
func TestRequestOnADeadConnectionIsSentAgain(t *testing.T) {
	for _, operation := range []string{"UpdateItem", "TransactWriteItems", "BatchGetItem"} {
		t.Run(operation, func(t *testing.T) {
			virtual(t, perMinute(), func(t *testing.T, s *process) {
				s.family("key", "project")
				client := &testworld.DeadPool{Next: s.client().Options().HTTPClient, Operation: operation}
				s = s.wired(&dynalimit.Options{
					Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 1000)}, Cascade: dynalimit.CascadeTransaction, OnUnavailable: dynalimit.Allow,
				}, client)
				entity := "key"
				if operation == "UpdateItem" {
					entity = "project"
				}
				if operation != "BatchGetItem" {
					s.acquire(entity, dynalimit.Amounts{"rpm": 1})
				}
				client.Dead.Store(1)
				began := time.Now()
				assert.False(t, s.acquire(entity, dynalimit.Amounts{"rpm": 1}).Degraded())
				assert.Less(t, time.Since(began), time.Second)
				assert.Negative(t, client.Dead.Load())
				assert.False(t, s.limiter.Health().Open)
				assert.Zero(t, s.limiter.Health().SilentBuckets)
			})
		})
	}
}
