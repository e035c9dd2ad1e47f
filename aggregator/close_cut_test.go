package aggregator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// endOfMonth is an office whose keys used something in the last two hours of a month, and
// another namespace that did so too.
func endOfMonth(t *testing.T, keys int) *office {
	t.Helper()
	last := time.Date(2026, 3, 31, 22, 0, 0, 0, time.UTC)
	o := newOffice(t, last, nil)
	require.NoError(t, admin.New(o.repo).Namespaces.Register(t.Context(), "eu"))
	require.NoError(t, admin.New(o.repo).Limits.Set(t.Context(), admin.Scope{Plan: "pro"}, limits(1)))
	o.entity("team", "", false, "pro")
	for _, namespace := range []string{"", "eu"} {
		o.update(schema.NewKeys(namespace).UsageClosed(), schema.UsageCursor{Closed: last, Final: last}.ReplaceCursor(schema.UsageCursor{}))
	}
	for i := range keys {
		id := fmt.Sprint("key-", i)
		switch i % 3 {
		case 0:
			o.entity(id, "team", false, "pro")
		case 1:
			o.entity(id, "", false, "pro")
		}
		resource := []string{"gpt-4", "claude"}[i%2]
		o.used(id, resource, last, -1, 5)
		o.used(id, resource, last.Add(time.Hour), 5, int64(9+i))
		there := record(o.seq+1, last, -1, 7)
		there.Keys["PK"] = &types.AttributeValueMemberS{Value: "eu/ENTITY#" + id}
		process(t, o.p, there)
	}
	o.now = last.Add(3 * time.Hour)
	return o
}

// callUntil closes what is due in a call that ends with its n-th request: ctx ends, or, if
// the process dies, nothing is answered from then on. It reports whether the call came to
// its end.
func (o *office) callUntil(n int, dies bool) bool {
	o.t.Helper()
	ctx, cancel := context.WithCancel(o.t.Context())
	defer cancel()
	made := 0
	o.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		o.mu.Lock()
		defer o.mu.Unlock()
		if made++; made >= n && dies {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "dead"}}
		}
		if made == n {
			cancel()
		}
		switch {
		case (made+n)%7 == 3 && (q.Operation == "UpdateItem" || q.Operation == "PutItem"):
			return ddbmem.Fault{Lose: true}
		case (made+n)%11 == 5:
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException", Message: "busy"}}
		}
		return ddbmem.Fault{}
	})
	defer o.db.SetFaults(nil)
	_, err := o.closer.CloseDue(ctx)
	if err != nil && !dies {
		require.True(o.t, errors.Is(err, context.Canceled), "%v", err)
	}
	return err == nil
}

// TestClosingThatIsCutAnywhere: a closing that begins anew writes the same sums, after one or two
// cuts at any request, by the end of the call or of the process, with lost answers and throttled
// requests, and while another closer closes the same hours.
func TestClosingThatIsCutAnywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, closingThatIsCutAnywhere)
}

func closingThatIsCutAnywhere(t *testing.T) {
	whole := endOfMonth(t, 6)
	whole.close(whole.now)
	want := whole.everything()
	require.Contains(t, want, "RESOURCE#gpt-4 #USAGE_MONTH#gpt-4#2026-03")
	for n := 1; ; n += max(1, 8000/histories(t)) {
		o := endOfMonth(t, 6)
		uncut := o.callUntil(n, n%2 == 0)
		if n%3 == 0 {
			o.callUntil(1+n/2, false)
		}
		if n%5 == 0 {
			o.other().close(o.now)
		}
		o.close(o.now)
		require.Equal(t, want, o.everything(), "cut at request %d", n)
		if uncut {
			break
		}
	}
}

// other is the office with another closer.
func (o *office) other() *office {
	o.t.Helper()
	c, err := aggregator.NewCloser(o.db.Client(), "limits", &aggregator.CloserOptions{Now: func() time.Time { return o.now }})
	require.NoError(o.t, err)
	return &office{t: o.t, db: o.db, repo: o.repo, p: o.p, closer: c, now: o.now}
}

// TestClosingsThatAreCutAtRandom, by two closers, while clocks step, hours become final and
// entities without a place are deleted, end with the sums of one that is not cut.
func TestClosingsThatAreCutAtRandom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, closingsThatAreCutAtRandom)
}

func closingsThatAreCutAtRandom(t *testing.T) {
	end := 80 * time.Hour
	whole := endOfMonth(t, 12)
	began := whole.now
	whole.close(began)
	whole.close(began.Add(end))
	want := sums(t, whole.db)
	for seed := range uint64(max(1, histories(t)/20)) {
		rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // histories are to be repeated
		o := endOfMonth(t, 12)
		second := o.other()
		for range 12 {
			o.now = o.now.Add([]time.Duration{0, time.Second, 20 * time.Minute, 2 * time.Hour, 9 * time.Hour, -time.Hour}[rnd.IntN(6)])
			second.now = o.now
			by := []*office{o, second}[rnd.IntN(2)]
			by.callUntil(1+rnd.IntN(900), rnd.IntN(3) == 0)
			if id := fmt.Sprint("key-", 2+3*rnd.IntN(4)); rnd.IntN(5) == 0 {
				_ = admin.New(o.repo).Entities.Delete(t.Context(), id) // it may be gone
			}
		}
		o.close(began.Add(end))
		assert.Equal(t, want, sums(t, o.db), "seed %d", seed)
	}
}

// TestClosingSaysHowFarItIs while it goes on, and where it ends early.
func TestClosingSaysHowFarItIs(t *testing.T) {
	o := endOfMonth(t, 110) // more than one page
	var said []string
	ctx, cancel := context.WithCancel(t.Context())
	o.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		o.mu.Lock()
		defer o.mu.Unlock()
		if at, closing := o.closer.Status(); closing && !slices.Contains(said, at.String()) {
			said = append(said, at.String())
			if at.Window == aggregator.Month && at.Part == 2 {
				cancel()
			}
		}
		return ddbmem.Fault{}
	})
	_, err := o.closer.CloseDue(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "closing the month of 2026-03-01T00:00Z, part 2 of 17")
	for _, want := range []string{
		"closing the hour of 2026-03-31T22:00Z, part 1 of 2, 0 of 110 done",
		"closing the hour of 2026-03-31T22:00Z, part 1 of 2, 100 of 110 done",
		"closing the hour of 2026-03-31T22:00Z, part 2 of 2, 0 of 6 done",
		"closing the day of 2026-03-31T00:00Z, part 1 of 17, 0 of 9 done",
	} {
		assert.Contains(t, said, want)
	}
	o.db.SetFaults(nil)
	o.close(o.now)
	_, closing := o.closer.Status()
	assert.False(t, closing)
}

// TestClosingTime: with 5 ms for each request and 16 writers, a window takes less than a
// millisecond for each series, and some seconds for its lists.
func TestClosingTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keys, namespaces, windows = 300, 2, 3
		o := endOfMonth(t, keys)
		o.close(o.now.Add(-90 * time.Minute)) // the hour before the last one
		o.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: storeLatency} })
		began := time.Now()
		require.Equal(t, namespaces, o.close(o.now.Add(90*time.Minute)).Hours)
		took := time.Since(began)
		t.Logf("%v", took)
		assert.Less(t, took, namespaces*(windows*keys*time.Millisecond+time.Second))
	})
}
