package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestUsageRetentionIsSet: by its version, with an event, and for the table as a whole.
func TestUsageRetentionIsSet(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil).As("ann")
		ctx, usage := t.Context(), admin.New(r).Usage
		none, err := usage.Retention(ctx)
		require.NoError(t, err)
		assert.Zero(t, none)
		const day = 24 * time.Hour
		first, err := usage.SetRetention(ctx, admin.UsageRetention{Hours: 30 * day, Days: 400 * day, Months: -1})
		require.NoError(t, err)
		longer := first
		longer.Hours = 180 * day
		second, err := usage.SetRetention(ctx, longer)
		require.NoError(t, err)
		again, err := usage.SetRetention(ctx, second)
		require.NoError(t, err)
		stored, err := usage.Retention(ctx)
		require.NoError(t, err)
		assert.Equal(t, admin.UsageRetention{Hours: 180 * day, Days: 400 * day, Months: -1, Version: 2}, stored)
		assert.Equal(t, stored, again)
		_, err = usage.SetRetention(ctx, first)
		require.ErrorIs(t, err, admin.ErrConflict)
		for _, bad := range []admin.UsageRetention{
			{Hours: time.Minute, Days: -1, Months: -1}, {Hours: -1, Days: 39 * day, Months: -1}, {Hours: -1, Days: -1}, {Hours: 101 * 365 * day, Days: -1, Months: -1},
		} {
			_, err := usage.SetRetention(ctx, bad)
			var invalid *dynalimit.ValidationError
			require.ErrorAs(t, err, &invalid)
		}
		var actions []string
		for _, event := range trail(t, r, audit.Query{Target: audit.System}) {
			actions = append(actions, event.Action)
		}
		assert.Equal(t, []string{"usage_retention_set", "usage_retention_set"}, actions)
	})
}

// TestUsageRetentionIsNotLost: a change between the read and the write of another one stays.
func TestUsageRetentionIsNotLost(t *testing.T) {
	e := memEngine(t)
	usage := admin.New(e.repository(t, nil).As("ann")).Usage
	const day = 24 * time.Hour
	mine, err := usage.SetRetention(t.Context(), admin.UsageRetention{Hours: 30 * day, Days: 400 * day, Months: -1})
	require.NoError(t, err)
	theirs, raced := mine, false
	theirs.Hours, mine.Hours = 60*day, 90*day
	e.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "TransactWriteItems" && !raced {
			raced = true
			_, err := usage.SetRetention(t.Context(), theirs)
			assert.NoError(t, err)
		}
		return ddbmem.Fault{}
	})
	_, err = usage.SetRetention(t.Context(), mine)
	require.ErrorIs(t, err, admin.ErrConflict)
	stored, err := usage.Retention(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 60*day, stored.Hours)
}
