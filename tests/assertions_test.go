package tests

import (
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

func requireInvalid(t *testing.T, err error, field string) *dynalimit.ValidationError {
	t.Helper()
	var invalid *dynalimit.ValidationError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, field, invalid.Field)
	assert.NotEmpty(t, invalid.Reason)
	assert.Contains(t, err.Error(), field)
	return invalid
}

func requireUnconfirmed(t *testing.T, err error, want dynalimit.Amounts) *dynalimit.UnconfirmedError {
	t.Helper()
	var unconfirmed *dynalimit.UnconfirmedError
	require.ErrorAs(t, err, &unconfirmed)
	require.ErrorIs(t, err, dynalimit.ErrUnconfirmed)
	require.ErrorIs(t, err, dynalimit.ErrUnavailable, "for want of an answer")
	assert.Equal(t, want, unconfirmed.Amounts)
	return unconfirmed
}

// holders are the entities and limits of statuses, in their order.
func holders(statuses []dynalimit.LimitStatus) []string {
	var out []string
	for _, s := range statuses {
		out = append(out, s.EntityID+" "+s.Limit.Name)
	}
	return out
}

// limitsAt are the limits that a level has.
func limitsAt(c admin.LimitConfig, err error) ([]dynalimit.Limit, error) { return c.Limits, err }

// availableOf is what a report says is available.
func availableOf(r *dynalimit.Report, err error) (dynalimit.Amounts, error) {
	if err != nil {
		return nil, err
	}
	return r.Available(), nil
}

func second[T any](_ T, err error) error { return err }

// partition lists the keys of everything an entity owns.
func partition(t *testing.T, r *repository, entity string) []schema.Key {
	t.Helper()
	keys, err := r.store.Keys(t.Context(), table.Query{Op: "test", Hash: schema.PK, Value: r.keys.Entity(entity), Prefix: "#"})
	require.NoError(t, err)
	return keys
}

func put(t *testing.T, r *repository, items ...schema.Item) {
	t.Helper()
	for _, item := range items {
		_, err := r.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &r.table, Item: item})
		require.NoError(t, err)
	}
}

// numberOf is 0 for an attribute that is absent.
func numberOf(item schema.Item, name string) int64 {
	v, ok := item[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// writes are the requests among a meter's that write a bucket.
func writes(m ddbmem.Meter) int64 {
	return m.Operations["UpdateItem"].Requests + m.Operations["PutItem"].Requests + m.Operations["TransactWriteItems"].Requests
}

var oneLimit = []dynalimit.Limit{{Name: "a-b.c_d", Capacity: 1, Burst: 2, RefillAmount: 3, RefillPeriod: 4 * time.Second}}
