package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/console"
)

// TestConsumersAreOfToday: a minute after midnight nobody has used anything, though the day before was just shown.
func TestConsumersAreOfToday(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.ReadUnits = 10_000 })
	for at, shown := range []bool{true, false} {
		o.SetTime(time.Date(2026, 11, 27, 23, 59+2*at, 0, 0, time.UTC))
		answer, _ := o.get("/")
		assert.Equal(t, shown, strings.Contains(answer.Body.String(), "Top consumers today"))
	}
}

// TestBlockedEntitiesComeFirst: before those that are only nearly spent.
func TestBlockedEntitiesComeFirst(t *testing.T) {
	o := newOffice(t, func(o *console.Options) { o.ReadUnits = 10_000 })
	require.NoError(t, o.Admin.Limits.SetBlocked(t.Context(), admin.Scope{Entity: "acme.support.prod"}, true))
	o.SetTime(o.Now().Add(5 * time.Minute))
	answer, _ := o.get("/")
	_, list, _ := strings.Cut(answer.Body.String(), "Needs attention")
	blocked, near := strings.Index(list, ">acme.support.prod<"), strings.Index(list, ">acme.growth.prod<")
	assert.Positive(t, blocked)
	assert.Less(t, blocked, near)
}
