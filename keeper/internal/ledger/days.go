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

// SumDays returns a scope's sums by day and label: from stored totals, also of further labels, or else from the
// shards of labels. Complete lists totals of cal's ended days that are not stored yet, also with an error. It
// writes nothing, and without an error no sum is too small.
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

// addSummed sets the sum of c's day and label in d.Rows. If over is true, the day's total can be stored, and c
// is appended to d.Complete.
func (d *Days) addSummed(c Closing, over bool) {
	d.Rows[c.day][c.label] = c.sum
	if over {
		d.Complete = append(d.Complete, c)
	}
}

// firstOpen returns the first of the days from one to another without a stored total of the label, or with a
// reopened one. It returns "" if every day has a total.
func firstOpen(totals map[store.Key]closedDay, label, from, to string) string {
	for day := from; day <= to; day = calendar.AddDays(day, 1) {
		if !totals[store.Key{PK: day, SK: label}].closed {
			return day
		}
	}
	return ""
}

// sumShards reads all shards of the counters in the partition pk, for the days from one to another, and returns
// their sums by day. Days without counters have no entry.
func (l *Ledger) sumShards(ctx context.Context, pk, from, to string) (map[string]Counter, error) {
	sums := map[string]Counter{}
	err := l.ReadShards(ctx, pk, "DAY#"+from, "DAY#"+to+"~", nil, func(key store.Key, row Counter) {
		day, _, _ := strings.Cut(strings.TrimPrefix(key.SK, "DAY#"), "#")
		sums[day] = sums[day].Add(row)
	})
	return sums, err
}

// readClosed reads the stored totals of a scope's days from one to another. Each key of the result has the day
// as its PK and the label as its SK. A reopened day has closed false and its number of reopenings.
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

// closeDay stores sum as the total of the label's day, with a time to live. It does nothing, without an error,
// if a later total is stored, or if a late write reopened the day after the read of seen.
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
