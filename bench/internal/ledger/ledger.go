// Package ledger compares the admissions of buckets with their allowance, both from their stored items. It is
// pure.
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
	// Consumed is the exact sum of the debits, in millitokens.
	Consumed int64
}

// Read returns the stored numbers of a limit from a bucket's item: amounts in millitokens, the refill instant
// in Unix ms, the period in ms. It fails if one is missing.
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

// Account is the balance of a bucket's tokens between two instants, in millitokens: Allowed = Admitted + Left
// + Lost.
type Account struct {
	// Allowed is the level at the start and the refill since.
	Allowed int64
	// Admitted is the takes less the give-backs.
	Admitted int64
	// Left is the level at the end.
	Left int64
	// Lost is the allowance that nobody got, because the refill met a full bucket. Below 0 it is the excess
	// of admissions.
	Lost int64
}

// Between returns the account of a limit, in millitokens, from its entry start to its entry end. The instants
// from and to, in Unix ms, belong to start and end. It fails if burst or rate changed.
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

// Sum returns the account of several buckets together: the sum of Between for each start entry with its end
// entry. It fails if the limit of a bucket changed.
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

// Used returns the used share of the available tokens. It is 1 if no token was lost, and more if too many
// were admitted.
func (a Account) Used() float64 {
	if a.Allowed == a.Left {
		return 1
	}
	return float64(a.Admitted) / float64(a.Allowed-a.Left)
}
