package aggregator_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// recordOfWhom is a record of another bucket.
func recordOfWhom(seq int, at time.Time, entity, resource string) aggregator.Record {
	r := record(seq, at, -1, 1000)
	r.Keys = map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "ENTITY#" + entity}, "SK": &types.AttributeValueMemberS{Value: "#BUCKET#" + resource}}
	return r
}

// TestUsed: who used what between two moments, each once.
func TestUsed(t *testing.T) {
	t.Parallel()
	db, p := newTable(t, nil)
	at := func(hour int) time.Time { return noon.Add(time.Duration(hour) * time.Hour) }
	process(t, p,
		recordOfWhom(1, at(0), "a", "gpt-4"), recordOfWhom(2, at(0), "b", "gpt-4"), recordOfWhom(3, at(1), "c", "claude"), recordOfWhom(4, at(2), "d", "gpt-4"),
	)
	process(t, p, recordOfWhom(5, at(1), "b", "gpt-4"))
	r := reading(t, db, at(30), aggregator.ReaderOptions{})
	used := func(q aggregator.Query) []aggregator.Used {
		all, err := r.Used(t.Context(), q)
		require.NoError(t, err)
		return all
	}
	a, b, c, d := aggregator.Used{Resource: "gpt-4", Entity: "a"}, aggregator.Used{Resource: "gpt-4", Entity: "b"}, aggregator.Used{Resource: "claude", Entity: "c"}, aggregator.Used{Resource: "gpt-4", Entity: "d"}
	assert.Equal(t, []aggregator.Used{c, a, b, d}, used(aggregator.Query{From: at(0), To: at(3)}))
	assert.Equal(t, []aggregator.Used{a, b}, used(aggregator.Query{From: at(0), To: at(2), Resource: "gpt-4"}))
	assert.Equal(t, []aggregator.Used{c, b}, used(aggregator.Query{From: at(1), To: at(2)}))
	assert.Equal(t, []aggregator.Used{c, a, b, d}, used(aggregator.Query{From: at(1), To: at(2), Window: aggregator.Month}))
	assert.Empty(t, used(aggregator.Query{From: at(5), To: at(6)}))
	began := db.Meter()
	keepHours(t, db, 48*time.Hour)
	assert.Len(t, used(aggregator.Query{From: at(0).AddDate(-1, 0, 0), To: at(30)}), 4)
	assert.LessOrEqual(t, db.Meter().Sub(began).Requests(), int64(16*(48+2)), "hours that are gone are not looked for")
	_, err := r.Used(t.Context(), aggregator.Query{From: at(1), To: at(0)})
	require.ErrorContains(t, err, "query.From")
	_, err = r.Used(t.Context(), aggregator.Query{Resource: "a#b"})
	assert.ErrorContains(t, err, "query.Resource")
}

// TestUsedOfFinalDays: their sums say so, also when their hours are gone; days before the
// first that was closed are looked for by the hour.
func TestUsedOfFinalDays(t *testing.T) {
	o := newOffice(t, noon, nil)
	db, p, day := o.db, o.p, noon.Truncate(24*time.Hour)
	at := func(days, hours int) time.Time { return day.AddDate(0, 0, days).Add(time.Duration(hours) * time.Hour) }
	process(t, p,
		recordOfWhom(1, at(0, 3), "early", "gpt-4"), recordOfWhom(2, at(3, 3), "a", "gpt-4"), recordOfWhom(3, at(3, 23), "b", "claude"), recordOfWhom(4, at(5, 1), "late", "gpt-4"),
	)
	for _, until := range []time.Time{at(4, 2), at(5, 2)} {
		o.close(until)
	}
	keepHours(t, db, 6*time.Hour)
	r := reading(t, db, at(5, 2), aggregator.ReaderOptions{})
	read := func(from, to time.Time, q aggregator.Query) ([]aggregator.Used, int64) {
		q.From, q.To = from, to
		began := db.Meter()
		used, err := r.Used(t.Context(), q)
		require.NoError(t, err)
		return used, db.Meter().Sub(began).Requests()
	}
	a, b := aggregator.Used{Resource: "gpt-4", Entity: "a"}, aggregator.Used{Resource: "claude", Entity: "b"}
	early, late := aggregator.Used{Resource: "gpt-4", Entity: "early"}, aggregator.Used{Resource: "gpt-4", Entity: "late"}
	used, requests := read(at(3, 0), at(4, 0), aggregator.Query{})
	assert.Equal(t, []aggregator.Used{b, a}, used)
	assert.EqualValues(t, 1+1+16, requests, "the first read of a Reader looks at the table's layout")
	used, _ = read(at(3, 0), at(4, 0), aggregator.Query{Resource: "gpt-4"})
	assert.Equal(t, []aggregator.Used{a}, used)
	used, requests = read(at(3, 0), at(5, 2), aggregator.Query{})
	assert.Equal(t, []aggregator.Used{b, a, late}, used)
	assert.EqualValues(t, 1+16+16*6, requests, "hours that are gone are not looked for")
	used, _ = read(at(0, 0), at(1, 0), aggregator.Query{})
	assert.Equal(t, []aggregator.Used{early}, used)
	keepHours(t, db, 90*24*time.Hour)
	r = reading(t, db, at(5, 2), aggregator.ReaderOptions{Began: at(4, 0)})
	used, requests = read(at(-90, 0), at(5, 0), aggregator.Query{})
	assert.Equal(t, []aggregator.Used{b, a}, used, "a copy has what was closed before it was made")
	assert.Less(t, requests, int64(16*30))
	used, _ = read(at(4, 0), at(5, 2), aggregator.Query{})
	assert.Equal(t, []aggregator.Used{late}, used)
}

// TestUsedIsWhole or fails: half a list is none.
func TestUsedIsWhole(t *testing.T) {
	db, p := newTable(t, nil)
	process(t, p, recordOfWhom(1, noon, "a", "gpt-4"))
	q := aggregator.Query{From: noon, To: noon.Add(time.Hour)}
	r := reading(t, db, noon, aggregator.ReaderOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Used(ctx, q)
	require.ErrorIs(t, err, context.Canceled)
	var requests atomic.Int64
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		if requests.Add(1) == 10 {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	})
	_, err = r.Used(t.Context(), q)
	assert.ErrorContains(t, err, "AccessDenied")
}
