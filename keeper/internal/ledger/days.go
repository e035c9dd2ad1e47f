package ledger

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/calendar"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// closedDay is the stored total of a day and label.
type closedDay struct {
	row        Counter
	closed     bool  // false if a late write reopened the day
	reopenings int64 // number of reopenings
}

// Days is the sums of a range of days.
type Days struct {
	Rows     map[string]map[string]Counter // by day and label
	Complete []Closing                     // days that have ended and have no stored total yet
}

// SumDays reads sums by day and label, from closed totals where they exist and from shards
// otherwise. It writes nothing. It returns the totals to store with the sums, even with an
// error. If a page cannot be read, SumDays returns an error: it never returns a sum that is too
// small.
func (l *Ledger) SumDays(ctx context.Context, cal calendar.Calendar, scope string, labels map[string]bool, from, to string) (Days, error) {
	totals, err := l.readClosed(ctx, scope, from, to)
	if err != nil {
		return Days{}, err
	}
	out := Days{Rows: map[string]map[string]Counter{}}
	for day := to; day >= from; day = calendar.AddDays(day, -1) {
		out.Rows[day] = map[string]Counter{}
	}
	for key, t := range totals { // including labels outside the argument
		if t.closed {
			out.Rows[key.PK][key.SK] = t.row
		}
	}
	var mu sync.Mutex
	now := l.Now()
	err = store.Each(ctx, maps.Keys(labels), func(ctx context.Context, label string) error {
		first := firstOpen(totals, label, from, to)
		if first == "" {
			return nil
		}
		sums, err := l.sumShards(ctx, LabelPartition(scope, label), first, to)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for day := first; day <= to; day = calendar.AddDays(day, 1) {
			if t := totals[store.Key{PK: day, SK: label}]; !t.closed {
				out.addSummed(Closing{scope, day, label, sums[day], t}, cal.IsClosable(day, now))
			}
		}
		return nil
	})
	return out, err
}

// addSummed adds the sum of a day that was added up from its shards. over means that the day's total can be
// stored.
func (d *Days) addSummed(c Closing, over bool) {
	d.Rows[c.day][c.label] = c.sum
	if over {
		d.Complete = append(d.Complete, c)
	}
}

// firstOpen returns the first day of a label without a stored total, or "" if every day has one.
func firstOpen(totals map[store.Key]closedDay, label, from, to string) string {
	for day := from; day <= to; day = calendar.AddDays(day, 1) {
		if !totals[store.Key{PK: day, SK: label}].closed {
			return day
		}
	}
	return ""
}

// sumShards reads the counters of a partition from one day to another, all shards, and sums them
// by day.
func (l *Ledger) sumShards(ctx context.Context, pk, from, to string) (map[string]Counter, error) {
	sums := map[string]Counter{}
	err := l.ReadShards(ctx, pk, "DAY#"+from, "DAY#"+to+"~", nil, func(key store.Key, row Counter) {
		day, _, _ := strings.Cut(strings.TrimPrefix(key.SK, "DAY#"), "#")
		sums[day] = sums[day].Add(row)
	})
	return sums, err
}

// readClosed reads the stored totals of a scope's days from one to another, with the marks of reopened ones.
// Each key of the result has the day as its PK and the label as its SK.
func (l *Ledger) readClosed(ctx context.Context, scope, from, to string) (map[store.Key]closedDay, error) {
	totals := map[store.Key]closedDay{}
	err := l.Store.Query(ctx, l.Store.Usage, closedPK(scope), from, to+"~", func(item store.Item) error {
		row, err := DecodeCounter(item)
		if err != nil {
			return err
		}
		var d store.Decoder
		day, label, _ := strings.Cut(store.KeyOf(item).SK, "#")
		_, closed := item[AttrSeq]
		totals[store.Key{PK: day, SK: label}] = closedDay{row, closed, d.Int(item, attrReopened)}
		return d.Err
	})
	return totals, err
}

// closeDay stores the total of a label's day, sum. It does nothing, without an error, if a later total is
// stored, or if a late write has reopened the day since the read of seen, its stored total.
func (l *Ledger) closeDay(ctx context.Context, scope, day, label string, sum Counter, seen closedDay) error {
	names := map[string]string{"#re": attrReopened, "#c": attrCost, "#cr": attrCredit}
	values := store.Item{":c": store.Picos(sum.Cost), ":cr": store.Picos(sum.credit)}
	set := make([]string, 0, 8)
	have := map[string]bool{}
	for _, v := range append(encodeCounter(sum), namedValue{attrCost, store.Picos(sum.Cost)}, namedValue{attrCredit, store.Picos(sum.credit)}) {
		if have[v.name] {
			continue
		}
		have[v.name] = true
		key := "s" + string(rune('a'+len(set)))
		names["#"+key], values[":"+key] = v.name, v.value
		set = append(set, "#"+key+" = :"+key)
	}
	names["#n"], values[":n"] = AttrSeq, store.Int(sum.Writes)
	names["#ttl"], values[":ttl"] = store.AttrTTL, store.Int(expirySeconds(day, l.KeepDays()))
	again := "attribute_not_exists(#re)"
	if seen.reopenings > 0 {
		again = "#re = :re"
		values[":re"] = store.Int(seen.reopenings)
	}
	cond := "(attribute_not_exists(#n) OR (#n < :n AND #c <= :c AND #cr <= :cr)) AND " + again
	key := ClosedKey(scope, day, label)
	err := store.Retry(ctx, func() error {
		_, err := l.Store.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &l.Store.Usage, Key: key.Attributes(),
			UpdateExpression:    aws.String("SET #ttl = if_not_exists(#ttl, :ttl), " + strings.Join(set, ", ")),
			ConditionExpression: &cond, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}, store.Once)
		return err
	})
	if store.Diagnose(err) == ddb.Refused {
		return nil
	}
	return err
}
