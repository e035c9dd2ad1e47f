// Package ledger compares what buckets admitted with what they were allowed, as
// their stored items show it. It is pure.
package ledger

import (
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// Item is a DynamoDB item.
type Item = map[string]types.AttributeValue

// Entry is one limit of a stored bucket.
type Entry struct {
	bucket.State
	// Consumed is the exact sum of what was debited, in millitokens.
	Consumed int64
}

// Read reads a limit of a bucket's item.
func Read(item Item, limit string) (Entry, error) {
	var e Entry
	for _, f := range []struct {
		name string
		into *int64
	}{
		{"rf", &e.Refilled},
		{"b_" + limit + "_tk", &e.Tokens},
		{"b_" + limit + "_bx", &e.Burst},
		{"b_" + limit + "_ra", &e.Amount},
		{"b_" + limit + "_rp", &e.Period},
		{"b_" + limit + "_tc", &e.Consumed},
	} {
		v, ok := item[f.name].(*types.AttributeValueMemberN)
		if !ok {
			return Entry{}, fmt.Errorf("the bucket has no number %s", f.name)
		}
		n, err := strconv.ParseInt(v.Value, 10, 64)
		if err != nil {
			return Entry{}, fmt.Errorf("%s: %w", f.name, err)
		}
		*f.into = n
	}
	return e, nil
}

// Account is what became of a bucket's tokens between two instants, in
// millitokens: Allowed = Admitted + Left + Lost.
type Account struct {
	// Allowed is the level at the start and the refill since.
	Allowed int64
	// Admitted is what was taken, less what was given back.
	Admitted int64
	// Left is the level at the end.
	Left int64
	// Lost is what the bucket was allowed and nobody got: refill that met a
	// full bucket. Below 0 it is what was admitted too much.
	Lost int64
}

// Between accounts for a limit whose item was start at the instant from and end
// at the instant to (ms). Its burst and rate must not have changed.
func Between(start, end Entry, from, to int64) (Account, error) {
	if start.Rate != end.Rate {
		return Account{}, fmt.Errorf("the limit changed from %+v to %+v", start.Rate, end.Rate)
	}
	refill := bucket.State{Rate: start.Rate, Refilled: from}
	credit, _ := refill.Credit(to)
	a := Account{
		Allowed:  start.Level(from) + credit,
		Admitted: end.Consumed - start.Consumed,
		Left:     end.Level(to),
	}
	a.Lost = a.Allowed - a.Admitted - a.Left
	return a, nil
}

// Sum accounts for several buckets together, as Between does for each.
func Sum(start, end []Entry, from, to int64) (sum Account, err error) {
	for i := range start {
		a, err := Between(start[i], end[i], from, to)
		if err != nil {
			return Account{}, err
		}
		sum = Account{sum.Allowed + a.Allowed, sum.Admitted + a.Admitted, sum.Left + a.Left, sum.Lost + a.Lost}
	}
	return sum, nil
}

// Used is the share of the tokens that could be had by then that was: 1 when
// none was lost, more when too many were admitted.
func (a Account) Used() float64 {
	if a.Allowed == a.Left {
		return 1
	}
	return float64(a.Admitted) / float64(a.Allowed-a.Left)
}
