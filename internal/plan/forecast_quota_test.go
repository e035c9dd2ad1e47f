package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/calendar"
)

// What is above a quota fits beside what was granted to it, less what is promised, or never: not
// at once, so that nobody tries it for ever.
func TestWaitAboveAQuota(t *testing.T) {
	hours, err := calendar.WindowsOf("hour", "")
	require.NoError(t, err)
	state := bucket.State{Rate: bucket.Quota(100, hours), Tokens: 150, Refilled: 10}
	now := int64(10 * 3_600_000)
	assert.Zero(t, Promise{}.Wait(state, now, 120))
	assert.Zero(t, Promise{Amount: 30}.Wait(state, now, 120))
	assert.EqualValues(t, bucket.Never, Promise{Amount: 50, After: state, At: now}.Wait(state, now, 120))
}
