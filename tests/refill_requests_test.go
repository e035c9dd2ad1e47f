package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// The whole requests of a reset and of a top-up.
func TestRefillRequests(t *testing.T) {
	two := &dynalimit.Options{Limits: []dynalimit.Limit{rpm, tpm}}
	refill := func(s *scene, amounts dynalimit.Amounts) (estimated bool) {
		buckets := s.repo.admin().Buckets
		if amounts == nil {
			_, err := buckets.Reset(s.t.Context(), "user-1", model, "ticket-1")
			require.NoError(s.t, err)
			return false
		}
		done, err := buckets.TopUp(s.t.Context(), "user-1", model, "ticket-1", amounts)
		require.NoError(s.t, err)
		return done.Estimated
	}
	for name, do := range map[string]func(s *scene){
		"reset_bucket":  func(s *scene) { refill(s, nil) },
		"top_up_bucket": func(s *scene) { refill(s, dynalimit.Amounts{"tpm": 500}) },
		"top_up_crowded": func(s *scene) {
			refused := 0
			s.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
				if refused++; q.Operation != "TransactWriteItems" {
					refused--
				}
				if q.Operation != "TransactWriteItems" || refused > 4 {
					return ddbmem.Fault{}
				}
				return ddbmem.Fault{Error: &ddbmem.Error{
					Code: "TransactionCanceledException", Message: "Transaction cancelled",
					Reasons: []ddbmem.Reason{{Code: "ConditionalCheckFailed"}, {Code: "None"}, {Code: "None"}},
				}}
			})
			assert.True(s.t, refill(s, dynalimit.Amounts{"tpm": 500}))
			s.db.SetFaults(nil)
			s.wire.KeepLast()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, two)
			s.acquire("user-1", dynalimit.Amounts{"rpm": 60, "tpm": 9000})
			s.clock.advance(3 * time.Second)
			s.wire.Take()
			do(s)
			assertGolden(t, name, s.wire.Take())
		})
	}
}
