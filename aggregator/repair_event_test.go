package aggregator_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// bookingEvents are the events of bookings of an entity, each with what it booked.
func (o *office) bookingEvents(entity string) (events []dynalimit.AuditEvent, booked []aggregator.Booking) {
	o.t.Helper()
	for e, err := range o.repo.AuditEvents(o.t.Context(), dynalimit.AuditQuery{Target: entity, From: noon.Add(-time.Hour)}) {
		require.NoError(o.t, err)
		if e.Action != "usage_repaired" {
			continue
		}
		events = append(events, e)
		var usage struct {
			Hour   time.Time        `json:"hour"`
			Booked map[string]int64 `json:"booked_millitokens"`
		}
		require.Len(o.t, e.Changes, 1)
		require.NoError(o.t, json.Unmarshal(e.Changes[0].After, &usage))
		for limit, n := range usage.Booked {
			booked = append(booked, aggregator.Booking{Entity: e.Target, Resource: e.Resource, Limit: limit, Hour: usage.Hour, Millitokens: n})
		}
	}
	return events, booked
}

// broke is an office in which 2 are missing between two hours, and 30 after the last.
func broke(t *testing.T) *office {
	t.Helper()
	o := newOffice(t, noon, nil)
	o.used("key-1", "gpt-4", noon, -1, 5)
	o.used("key-1", "gpt-4", noon.Add(2*time.Hour), 7, 9)
	o.bucket(record(9, noon, -1, 39), noon.Add(3*time.Hour))
	o.now = noon.Add(40 * time.Hour)
	return o
}

// TestRepairTellsWhoBooked: each booking has one event, of who repaired, when, and how much of
// what; a dry run, and a repair that finds nothing, have none.
func TestRepairTellsWhoBooked(t *testing.T) {
	o := broke(t)
	dry := o.repair(aggregator.RepairOptions{From: noon, DryRun: true})
	require.Len(t, dry.Bookings, 2)
	events, _ := o.bookingEvents("key-1")
	assert.Empty(t, events)
	done := o.repair(aggregator.RepairOptions{From: noon, Principal: "ann@example.com"})
	events, booked := o.bookingEvents("key-1")
	assert.ElementsMatch(t, dry.Bookings, done.Bookings)
	assert.ElementsMatch(t, done.Bookings, booked)
	for _, e := range events {
		assert.Equal(t, []string{"ann@example.com", "key-1", "gpt-4", "usage"}, []string{e.Principal, e.Target, e.Resource, e.Changes[0].Field})
		assert.True(t, e.Time.Equal(o.now), e.Time)
		assert.Nil(t, e.Changes[0].Before)
	}
	o.repair(aggregator.RepairOptions{From: noon, Principal: "ben"})
	events, _ = o.bookingEvents("key-1")
	assert.Len(t, events, 2)

	byName := 0
	for _, err := range o.repo.AuditEvents(t.Context(), dynalimit.AuditQuery{Principal: "ann@example.com", From: o.now.Add(-time.Hour), To: o.now.Add(time.Hour)}) {
		require.NoError(t, err)
		byName++
	}
	assert.Equal(t, 2, byName, "they are listed by who made them")
}

// TestEventsOfRepairsAreKept for as long as is said: 90 days by default, and for ever.
func TestEventsOfRepairsAreKept(t *testing.T) {
	for kept, gone := range map[time.Duration][]time.Duration{
		0: {91 * 24 * time.Hour, 89 * 24 * time.Hour}, time.Hour: {2 * time.Hour, 30 * time.Minute}, -1: {0, 50_000 * time.Hour},
	} {
		o := broke(t)
		o.repair(aggregator.RepairOptions{From: noon, Principal: "ops", AuditRetention: kept})
		o.now = o.now.Add(gone[1])
		o.db.ExpireNow()
		events, _ := o.bookingEvents("key-1")
		assert.Len(t, events, 2, "%v", kept)
		if gone[0] > 0 {
			o.now = o.now.Add(gone[0] - gone[1])
			o.db.ExpireNow()
			events, _ = o.bookingEvents("key-1")
			assert.Empty(t, events, "%v", kept)
		}
	}
}

// TestRepairNeedsAName: unless it is allowed that there is none, and for a dry run.
func TestRepairNeedsAName(t *testing.T) {
	o := broke(t)
	for _, principal := range []string{"", "a\nb"} {
		before := o.db.Meter()
		_, err := o.closer.Repair(t.Context(), aggregator.RepairOptions{From: noon, Principal: principal})
		requireInvalid(t, err, "options.Principal")
		assert.Zero(t, o.db.Meter().Sub(before).Requests())
	}
	o.repair(aggregator.RepairOptions{From: noon, AllowAnonymous: true})
	events, _ := o.bookingEvents("key-1")
	require.Len(t, events, 2)
	assert.Empty(t, events[0].Principal)
}

// TestEventsOfRepairsThatFail: whatever becomes of requests, what was booked and what events
// tell is the same, and a booking whose answer was lost is told.
func TestEventsOfRepairsThatFail(t *testing.T) {
	opts := aggregator.RepairOptions{From: noon, Principal: "ops"}
	for name, fault := range map[string]ddbmem.Fault{
		"an answer is lost":     {Lose: true},
		"a request is lost":     {Drop: true},
		"another is in the way": {Error: &ddbmem.Error{Code: "TransactionConflictException", Message: "conflict", Status: 400}},
	} {
		for n := 1; n <= 2; n++ {
			synctest.Test(t, func(t *testing.T) {
				o, seen := broke(t), 0
				want := o.repair(aggregator.RepairOptions{From: noon, DryRun: true}).Bookings
				o.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
					if r.Operation != "TransactWriteItems" {
						return ddbmem.Fault{}
					}
					if seen++; seen == n {
						return fault
					}
					return ddbmem.Fault{}
				})
				done := o.repair(opts)
				_, booked := o.bookingEvents("key-1")
				assert.ElementsMatch(t, want, done.Bookings, name)
				assert.ElementsMatch(t, want, booked, name)
				assert.EqualValues(t, 39, o.total(), name)
			})
		}
	}
}

// TestRepairThatIsCut: wherever it is, the events tell what was booked.
func TestRepairThatIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for cut := int64(1); ; cut++ {
			o := broke(t)
			whole := o.cutAt(cut, func() error {
				_, err := o.closer.Repair(t.Context(), aggregator.RepairOptions{From: noon, Principal: "ops"})
				return err
			})
			_, booked := o.bookingEvents("key-1")
			sum := int64(7) // what records told
			for _, b := range booked {
				sum += b.Millitokens
			}
			require.Equal(t, o.total(), sum, "cut at %d", cut)
			if whole {
				return
			}
		}
	})
}
