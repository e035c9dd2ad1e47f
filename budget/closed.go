package budget

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/money"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// closedDay is a stored total of a day and label.
type closedDay struct {
	row      counterRow
	closed   bool  // false: reopened by a late write, or only ever so
	reopened int64 // how often
}

// closedDays gives the sums of days by day and label: closed totals where they
// are, shards where not. Days that are over for long enough and not closed are left
// in closings. Every page must be read: a part is an error, never a smaller sum.
func (k *Keeper) closedDays(ctx context.Context, cal calendar.Calendar, scope string, labels map[string]bool, from, to string, c *closings) (map[string]map[string]counterRow, error) {
	totals, err := k.readClosed(ctx, scope, from, to)
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]counterRow{}
	missing := map[string]string{} // label → first day without a total
	for day := to; day >= from; day = calendar.AddDays(day, -1) {
		out[day] = map[string]counterRow{}
		for label := range labels {
			if t := totals[store.Key{PK: day, SK: label}]; t.closed {
				out[day][label] = t.row
			} else {
				missing[label] = day
			}
		}
	}
	for key, t := range totals {
		if t.closed { // of a label nobody listed
			out[key.PK][key.SK] = t.row
		}
	}
	var mu sync.Mutex
	err = parallel(ctx, maps.Keys(missing), func(ctx context.Context, label string) error {
		sums := map[string]counterRow{}
		pk := labelPK(scope, label)
		err := k.readShards(ctx, pk, "DAY#"+missing[label], "DAY#"+to+"~", func(sk string, row counterRow) {
			day, _, _ := strings.Cut(strings.TrimPrefix(sk, "DAY#"), "#")
			sums[day] = sums[day].add(row)
		})
		if err != nil {
			return err
		}
		for day := missing[label]; day <= to; day = calendar.AddDays(day, 1) {
			t := totals[store.Key{PK: day, SK: label}]
			if t.closed {
				continue
			}
			mu.Lock()
			out[day][label] = sums[day]
			mu.Unlock()
			if cal.Closes(day, k.now()) {
				c.add(closing{scope, day, label, sums[day], t})
			}
		}
		return nil
	})
	return out, err
}

// readClosed reads the stored totals of days, by day and label.
func (k *Keeper) readClosed(ctx context.Context, scope, from, to string) (map[store.Key]closedDay, error) {
	totals := map[store.Key]closedDay{}
	err := k.store.Query(ctx, k.store.Usage, closedPK(scope), from, to+"~", func(item store.Item) error {
		row, err := decodeCounter(item)
		if err != nil {
			return err
		}
		var d store.Decoder
		day, label, _ := strings.Cut(store.KeyOf(item).SK, "#")
		_, closed := item[attrSeq]
		totals[store.Key{PK: day, SK: label}] = closedDay{row, closed, d.Int(item, attrReopened)}
		return d.Err
	})
	return totals, err
}

// closeDay stores a total, if nobody stored a later one and no late write came
// since the shards were read.
func (k *Keeper) closeDay(ctx context.Context, scope, day, label string, sum counterRow, seen closedDay) error {
	sum.hard, sum.used = false, money.Picos{}
	names := map[string]string{"#re": attrReopened, "#c": attrCost, "#cr": attrCredit}
	values := store.Item{":c": store.Picos(sum.cost), ":cr": store.Picos(sum.credit)}
	set := make([]string, 0, 8)
	have := map[string]bool{}
	for _, v := range append(encodeCounter(sum), namedValue{attrCost, store.Picos(sum.cost)}, namedValue{attrCredit, store.Picos(sum.credit)}) {
		if have[v.name] {
			continue
		}
		have[v.name] = true
		key := "s" + string(rune('a'+len(set)))
		names["#"+key], values[":"+key] = v.name, v.value
		set = append(set, "#"+key+" = :"+key)
	}
	names["#n"], values[":n"] = attrSeq, store.Int(sum.n)
	again := "attribute_not_exists(#re)"
	if seen.reopened > 0 {
		again = "#re = :re"
		values[":re"] = store.Int(seen.reopened)
	}
	cond := "(attribute_not_exists(#n) OR (#n < :n AND #c <= :c AND #cr <= :cr)) AND " + again
	key := closedKey(scope, day, label)
	err := store.Retry(ctx, func() error {
		_, err := k.store.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &k.store.Usage, Key: key.Item(),
			UpdateExpression:    aws.String("SET " + strings.Join(set, ", ")),
			ConditionExpression: &cond, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}, store.Once)
		return err
	})
	if store.Diagnose(err) == ddb.Refused {
		return nil
	}
	return err
}
