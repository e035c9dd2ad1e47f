package budget

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// A keeper asks on a new connection when a pooled one is dead, as the limiter does, and counts
// the record once.
func TestRecordOnADeadConnectionIsSentAgain(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, _ *Keeper) {
		client := &testworld.DeadPool{Next: db.Client().Options().HTTPClient, Operation: "TransactWriteItems"}
		k, err := New(db.Client(func(o *dynamodb.Options) { o.HTTPClient = client }), Tables{}, &Options{Models: fixtureModels, Principal: tester, AllowUnknownApps: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, k.Close(t.Context())) }()
		_, err = k.Submit(t.Context(), orgO, appA, call(1))
		require.NoError(t, err)
		client.Dead.Store(1)
		assert.Less(t, took(func() {
			_, err = k.Submit(t.Context(), orgO, appA, call(2))
			require.NoError(t, err)
		}), time.Second)
		assert.Negative(t, client.Dead.Load())
		assert.False(t, k.Health().Open)
	})
}
