package main

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTheDay plays the day in virtual time. What cascades counts once: the team has what
// its keys used, and so has the model.
func TestTheDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		began := time.Now()
		require.NoError(t, run(t.Context(), &out))
		assert.Less(t, time.Since(began), 5*time.Second)
		assert.Equal(t, want, out.String())
	})
}

const want = `who used what, on ddbmem, a DynamoDB in this process

Calls  288 of 3 keys until 20:00

Tail   1152 records of the stream counted, each once, 0 gaps

Close  44 hours closed, from the day before on, 0 with usage that is missing

Read   gpt-4 in total, tokens by the hour
    02:00   ███████████████████████████░░░░░    72000
    03:00   ███████████████████████████░░░░░    72000
    08:00   █████░░░░░░░░░░░░░░░░░░░░░░░░░░░    14400
    09:00   ███████████░░░░░░░░░░░░░░░░░░░░░    28800
    10:00   ████████████████░░░░░░░░░░░░░░░░    43200
    11:00   █████████████████████░░░░░░░░░░░    57600
    12:00   ███████████████████████████░░░░░    72000
    13:00   ████████████████████████████████    86400
    14:00   ███████████████████████████░░░░░    72000
    15:00   █████████████████████░░░░░░░░░░░    57600
    16:00   ████████████████░░░░░░░░░░░░░░░░    43200
    17:00   ███████████░░░░░░░░░░░░░░░░░░░░░    28800
    18:00   █████░░░░░░░░░░░░░░░░░░░░░░░░░░░    14400

Read   the day of shop, which has what its keys used, and of each key
    shop    ████████████████████████████████   662400
    ana     ███████████████████░░░░░░░░░░░░░   388800
    nightly ███████░░░░░░░░░░░░░░░░░░░░░░░░░   144000
    ben     ██████░░░░░░░░░░░░░░░░░░░░░░░░░░   129600
`

func TestTheDayStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, run(ctx, &bytes.Buffer{}), context.Canceled)
}

func TestDemand(t *testing.T) {
	assert.EqualValues(t, 7200, demand("ana", 13))
	assert.EqualValues(t, 2400, demand("ben", 13))
	assert.EqualValues(t, 8000, demand("nightly", 3))
	assert.Zero(t, demand("nightly", 4))
	assert.Zero(t, demand("ana", 3))
}
