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
			if t := totals[itemKey{day, label}]; t.closed {
				out[day][label] = t.row
			} else {
				missing[label] = day
			}
		}
	}
	for key, t := range totals {
		if t.closed { // of a label nobody listed
			out[key.pk][key.sk] = t.row
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
			t := totals[itemKey{day, label}]
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
func (k *Keeper) readClosed(ctx context.Context, scope, from, to string) (map[itemKey]closedDay, error) {
	totals := map[itemKey]closedDay{}
	err := k.store.query(ctx, k.store.tables.Usage, closedPK(scope), from, to+"~", func(item attrs) error {
		row, err := decodeCounter(item)
		if err != nil {
			return err
		}
		var d decoder
		day, label, _ := strings.Cut(keyOf(item).sk, "#")
		_, closed := item[attrSeq]
		totals[itemKey{day, label}] = closedDay{row, closed, d.int(item, attrReopened)}
		return d.err
	})
	return totals, err
}

// closeDay stores a total, if nobody stored a later one and no late write came
// since the shards were read.
func (k *Keeper) closeDay(ctx context.Context, scope, day, label string, sum counterRow, seen closedDay) error {
	sum.hard, sum.used = false, money.Picos{}
	names := map[string]string{"#re": attrReopened, "#c": attrCost, "#cr": attrCredit}
	values := attrs{":c": picosValue(sum.cost), ":cr": picosValue(sum.credit)}
	set := make([]string, 0, 8)
	have := map[string]bool{}
	for _, v := range append(encodeCounter(sum), namedValue{attrCost, picosValue(sum.cost)}, namedValue{attrCredit, picosValue(sum.credit)}) {
		if have[v.name] {
			continue
		}
		have[v.name] = true
		key := "s" + string(rune('a'+len(set)))
		names["#"+key], values[":"+key] = v.name, v.value
		set = append(set, "#"+key+" = :"+key)
	}
	names["#n"], values[":n"] = attrSeq, num(sum.n)
	again := "attribute_not_exists(#re)"
	if seen.reopened > 0 {
		again = "#re = :re"
		values[":re"] = num(seen.reopened)
	}
	cond := "(attribute_not_exists(#n) OR (#n < :n AND #c <= :c AND #cr <= :cr)) AND " + again
	key := closedKey(scope, day, label)
	err := retry(ctx, func() error {
		_, err := k.store.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &k.store.tables.Usage, Key: key.attrs(),
			UpdateExpression:    aws.String("SET " + strings.Join(set, ", ")),
			ConditionExpression: &cond, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}, once)
		return err
	})
	if diagnose(err) == troubleRefused {
		return nil
	}
	return err
}
