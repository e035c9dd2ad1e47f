package ledger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/calendar"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// A total is stored unless a later one is there, or a late write came since its
// shards were read.
func TestOlderTotalsAreRefused(t *testing.T) {
	l := newLedger(t)
	a := anAccount()
	cal := calendar.InZone("UTC")
	labels := map[string]bool{a.Label: true}
	sum := func() (money.Picos, []Closing) {
		days, err := l.SumDays(t.Context(), cal, a.Scope, labels, aDay, aDay)
		require.NoError(t, err)
		return days.Rows[aDay][a.Label].Spend(), days.Complete
	}
	charge := func(id string, micros int64) {
		require.NoError(t, l.Write(t.Context(), a.NewAdjustment(Adjustment{
			ID: id, Label: a.Label, Day: aDay, At: afterDays, Change: money.FromMicros(micros),
		}, cal.MayBeClosed(aDay, afterDays))))
	}

	charge("first", 10)
	_, before := sum()
	require.Len(t, before, 1)
	charge("second", 5)
	l.CloseAll(t.Context(), before)
	spent, now := sum()
	assert.Equal(t, money.FromMicros(15), spent, "a late write came since")
	require.Len(t, now, 1, "the day is open still")

	l.CloseAll(t.Context(), now)
	older := before[0]
	older.seen = now[0].seen
	l.CloseAll(t.Context(), []Closing{older})
	spent, now = sum()
	assert.Equal(t, money.FromMicros(15), spent, "a later one is there")
	assert.Empty(t, now)
}

// choosy is a client that calls every transaction wrong which has an adjustment of
// one id.
type choosy struct {
	store.Client
	id string
}

var errWrong = errors.New("wrong")

func (c choosy) TransactWriteItems(
	ctx context.Context, in *dynamodb.TransactWriteItemsInput, options ...func(*dynamodb.Options),
) (*dynamodb.TransactWriteItemsOutput, error) {
	for _, it := range in.TransactItems {
		if it.Put != nil && strings.HasSuffix(store.KeyOf(it.Put.Item).SK, c.id) {
			return nil, errWrong
		}
	}
	return c.Client.TransactWriteItems(ctx, in, options...)
}

// What DynamoDB calls wrong costs nobody else: those that shared its transaction are
// written without it.
func TestOneBadOperationFailsAlone(t *testing.T) {
	l := newLedger(t)
	l.Store.Client = choosy{l.Store.Client, "bad"}
	var ops []*Operation
	for _, id := range []string{"first", "bad", "last"} {
		ops = append(ops, anAccount().NewAdjustment(Adjustment{ID: id, Label: "premium", Day: aDay, At: afterDays, Change: money.FromMicros(1)}, false))
	}
	errs := l.WriteAll(t.Context(), ops)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], errWrong)
	require.NoError(t, errs[2])
}

// An adjustment stays in its queue, whoever waits for it.
func TestOnlyRecordsAreWithdrawn(t *testing.T) {
	l := New(Options{})
	record := anAccount().NewSubmission(Record{}, nil, false)
	adjustment := anAccount().NewAdjustment(Adjustment{}, false)
	for o, leaves := range map[*Operation]bool{record: true, adjustment: false} {
		other := anAccount().NewSubmission(Record{}, nil, false)
		q := &lane{queue: []*Operation{other, o, other}}
		l.lanes.open[o.lane] = q
		assert.Equal(t, leaves, l.lanes.withdraw(o))
		assert.Equal(t, !leaves, slices.Contains(q.queue, o))
		assert.False(t, leaves && l.lanes.withdraw(o), "it has left")
	}
}
