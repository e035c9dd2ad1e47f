package ddbmem_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// addIf is an update that adds d to n if n is at least floor.
func addIf(table *string, key string, d, floor int64) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: table, Key: item{"PK": str(key)}, UpdateExpression: aws.String("ADD n :d"), ConditionExpression: aws.String("n >= :floor"),
		ExpressionAttributeValues:           item{":d": num(d), ":floor": num(floor)},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

func transact(t *testing.T, e engine, token *string, items ...types.TransactWriteItem) error {
	t.Helper()
	_, err := e.client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: items, ClientRequestToken: token})
	return err
}

func TestTransactionCommitsAllOrNothing(t *testing.T) {
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		put(t, e, table, item{"PK": str("a"), "n": num(5)})
		put(t, e, table, item{"PK": str("gone")})
		put(t, e, table, item{"PK": str("text"), "n": str("x")})
		drop := types.TransactWriteItem{Delete: &types.Delete{TableName: table, Key: item{"PK": str("gone")}, ConditionExpression: aws.String("attribute_exists(PK)")}}
		check := types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: table, Key: item{"PK": str("text")}, ConditionExpression: aws.String("attribute_exists(n)")}}
		fresh := types.TransactWriteItem{Put: &types.Put{TableName: table, Item: item{"PK": str("new")}}}

		err := transact(t, e, nil, fresh, addIf(table, "a", -1, 9), addIf(table, "nope", 1, 0), drop)
		require.Equal(t, `error TransactionCanceledException None{}, ConditionalCheckFailed{PK="a" n=5}, ConditionalCheckFailed{}, None{}`, failureOf(err).text)
		require.ErrorContains(t, err, "[None, ConditionalCheckFailed, ConditionalCheckFailed, None]")
		plain := types.TransactWriteItem{Update: &types.Update{TableName: table, Key: item{"PK": str("text")}, UpdateExpression: aws.String("ADD n :d"), ExpressionAttributeValues: item{":d": num(1)}}}
		require.Equal(t, "error TransactionCanceledException None{}, ValidationError{}", failureOf(transact(t, e, nil, fresh, plain)).text)
		require.Equal(t, `{PK="a" n=5}`, get(t, e, table, item{"PK": str("a")}))
		require.Equal(t, "{}", get(t, e, table, item{"PK": str("new")}))

		require.NoError(t, transact(t, e, nil, fresh, addIf(table, "a", -1, 5), check, drop))
		require.Equal(t, `{PK="a" n=4}`, get(t, e, table, item{"PK": str("a")}))
		require.Equal(t, `{PK="new"}`, get(t, e, table, item{"PK": str("new")}))
		require.Equal(t, "{}", get(t, e, table, item{"PK": str("gone")}))
	})
}

func TestRejectedTransactions(t *testing.T) {
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		put(t, e, table, item{"PK": str("a"), "n": num(5)})
		message := wantCode(t, "ValidationException", transact(t, e, nil, addIf(table, "a", 1, 0), addIf(table, "a", 1, 0)))
		require.Contains(t, message, "multiple operations on one item")
		var many []types.TransactWriteItem
		for i := range 101 {
			many = append(many, types.TransactWriteItem{Put: &types.Put{TableName: table, Item: item{"PK": str(fmt.Sprint(i))}}})
		}
		wantCode(t, "ValidationException", transact(t, e, nil, many...))
		require.NoError(t, transact(t, e, nil, many[:100]...))
		wantCode(t, "ResourceNotFoundException", transact(t, e, nil, addIf(aws.String("no-such-table"), "a", 1, 0)))
	})
}

func TestClientRequestToken(t *testing.T) {
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		put(t, e, table, item{"PK": str("a"), "n": num(5)})
		token := aws.String(fmt.Sprintf("token-%d", time.Now().UnixNano()))
		for range 3 {
			require.NoError(t, transact(t, e, token, addIf(table, "a", -5, 5)))
		}
		require.Equal(t, `{PK="a" n=0}`, get(t, e, table, item{"PK": str("a")}))
		wantCode(t, "IdempotentParameterMismatchException", transact(t, e, token, addIf(table, "a", -4, 5)))
	})
}

func TestClientRequestTokenLastsTenMinutes(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	e := engine{client: db.Client(once)}
	table := e.table(t, false)
	put(t, e, table, item{"PK": str("a"), "n": num(5)})
	for _, step := range []struct {
		after time.Duration
		n     string
	}{{0, "6"}, {10*time.Minute - 1, "6"}, {1, "7"}} {
		now = now.Add(step.after)
		before := db.Meter()
		require.NoError(t, transact(t, e, aws.String("token"), addIf(table, "a", 1, 0)))
		require.Equal(t, `{PK="a" n=`+step.n+`}`, get(t, e, table, item{"PK": str("a")}))
		used := db.Meter().Sub(before)
		if step.after == 10*time.Minute-1 {
			require.Zero(t, used.WriteUnits(), "a repeated transaction costs reads")
			require.Equal(t, 2.0+1, used.ReadUnits())
		}
	}
	// A refused transaction may be sent again with its token.
	require.Error(t, transact(t, e, aws.String("second"), addIf(table, "a", 1, 100)))
	put(t, e, table, item{"PK": str("a"), "n": num(100)})
	require.NoError(t, transact(t, e, aws.String("second"), addIf(table, "a", 1, 100)))
}

// The engine ignores the projection of a TransactGetItems.
func TestTransactGet(t *testing.T) {
	onDDBMem(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		put(t, e, table, item{"PK": str("a"), "n": num(5), "x": num(1)})
		out, err := e.client.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
			{Get: &types.Get{TableName: table, Key: item{"PK": str("nope")}}},
			{Get: &types.Get{TableName: table, Key: item{"PK": str("a")}, ProjectionExpression: aws.String("#0"), ExpressionAttributeNames: map[string]string{"#0": "n"}}},
		}})
		require.NoError(t, err)
		require.Len(t, out.Responses, 2)
		require.Equal(t, "{}", showItem(out.Responses[0].Item))
		require.Equal(t, "{n=5}", showItem(out.Responses[1].Item))
	})
}

// TestConcurrentWrites wants conditional takes to admit exactly what there is and
// transactions to keep the sum.
func TestConcurrentWrites(t *testing.T) {
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, false)
		put(t, e, table, item{"PK": str("a"), "n": num(100)})
		put(t, e, table, item{"PK": str("b"), "n": num(100)})
		put(t, e, table, item{"PK": str("tokens"), "n": num(60)})
		var group sync.WaitGroup
		var mu sync.Mutex
		admitted := 0
		for w := range 8 {
			group.Go(func() {
				for range 20 {
					_, err := e.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
						TableName: table, Key: item{"PK": str("tokens")}, UpdateExpression: aws.String("ADD n :d"),
						ConditionExpression: aws.String("n >= :floor"), ExpressionAttributeValues: item{":d": num(-1), ":floor": num(1)},
					})
					var failed *types.ConditionalCheckFailedException
					if err != nil && !errors.As(err, &failed) {
						t.Errorf("update: %v", err)
					}
					if err == nil {
						mu.Lock()
						admitted++
						mu.Unlock()
					}
					from, to := "a", "b"
					if w%2 == 0 {
						from, to = to, from
					}
					_, err = e.client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{addIf(table, from, -7, 7), addIf(table, to, 7, 0)}})
					var cancelled *types.TransactionCanceledException
					if err != nil && !errors.As(err, &cancelled) {
						t.Errorf("transaction: %v", err)
					}
				}
			})
		}
		group.Wait()
		require.Equal(t, 60, admitted)
		sum := int64(0)
		for _, k := range []string{"a", "b"} {
			out, err := e.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: table, Key: item{"PK": str(k)}, ConsistentRead: aws.Bool(true)})
			require.NoError(t, err)
			var n int64
			_, err = fmt.Sscan(out.Item["n"].(*types.AttributeValueMemberN).Value, &n)
			require.NoError(t, err)
			sum += n
		}
		require.EqualValues(t, 200, sum)
	})
}

func kilobytes(n int) av { return str(strings.Repeat("x", n*1024-50)) }

// priced are the calls of TestCapacity.
type priced struct {
	t      *testing.T
	client *dynamodb.Client
	key    item // in the table "plain"
	row    item // in the table "indexed"
}

func (p priced) update(table string, k item, expression string, values item) func() error {
	return func() error {
		_, err := p.client.UpdateItem(p.t.Context(), &dynamodb.UpdateItemInput{TableName: &table, Key: k, UpdateExpression: &expression, ExpressionAttributeValues: values})
		return err
	}
}

// change is an update of the item in the index.
func (p priced) change(expression string, values item) func() error {
	return p.update("indexed", p.row, expression, values)
}

func (p priced) put(table string, it item) func() error {
	return func() error {
		_, err := p.client.PutItem(p.t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it})
		return err
	}
}

func (p priced) read(consistent bool) func() error {
	return func() error {
		_, err := p.client.GetItem(p.t.Context(), &dynamodb.GetItemInput{TableName: aws.String("plain"), Key: p.key, ConsistentRead: &consistent})
		return err
	}
}

func (p priced) remove() error {
	_, err := p.client.DeleteItem(p.t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("plain"), Key: p.key})
	return err
}

func (p priced) refused() error {
	_, err := p.client.PutItem(p.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("plain"), Item: p.key, ConditionExpression: aws.String("attribute_not_exists(PK)")})
	wantCode(p.t, "ConditionalCheckFailedException", err)
	return nil
}

func (p priced) transact() error {
	_, err := p.client.TransactWriteItems(p.t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: aws.String("plain"), Item: item{"PK": str("t")}}},
		{ConditionCheck: &types.ConditionCheck{TableName: aws.String("plain"), Key: p.key, ConditionExpression: aws.String("attribute_exists(PK)")}},
	}})
	return err
}

// TestCapacity measures each step with the meter, which counts what
// ReturnConsumedCapacity would say.
func TestCapacity(t *testing.T) {
	db := ddbmem.New()
	p := priced{t: t, client: db.Client(once), key: item{"PK": str("a")}, row: item{"PK": str("a"), "SK": str("b")}}
	createTable(t, p.client, "plain", false)
	createTable(t, p.client, "indexed", true, withIndex)
	tests := []struct {
		name        string
		do          func() error
		read, write float64
		refused     int64
	}{
		{"a read of nothing", p.read(false), 0.5, 0, 0},
		{"a consistent read of nothing", p.read(true), 1, 0, 0},
		{"a delete of nothing", p.remove, 0, 1, 0},
		{"a small put", p.put("plain", p.key), 0, 1, 0},
		{"an update to 3 KB", p.update("plain", p.key, "SET v = :v", item{":v": kilobytes(3)}), 0, 3, 0},
		{"an update down to nothing", p.update("plain", p.key, "REMOVE v", nil), 0, 3, 0},
		{"a put of 5 KB", p.put("plain", item{"PK": str("a"), "v": kilobytes(5)}), 0, 5, 0},
		{"a read of 5 KB", p.read(false), 1, 0, 0},
		{"a consistent read of 5 KB", p.read(true), 2, 0, 0},
		{"a refused put over 5 KB", p.refused, 0, 5, 1},
		{"a transaction: put and check over 5 KB", p.transact, 0, 2 + 10, 0},
		{"a delete of 5 KB", p.remove, 0, 5, 0},
		{"an item outside the index", p.put("indexed", p.row), 0, 1, 0},
		{"an item into the index", p.change("SET g = :g, h = :h, n = :h", item{":g": str("G"), ":h": num(1)}), 0, 2, 0},
		{"an attribute not in the index", p.change("SET x = :h", item{":h": num(1)}), 0, 1, 0},
		{"an attribute in the index", p.change("SET n = :h", item{":h": num(2)}), 0, 2, 0},
		{"the same value again", p.change("SET n = :h", item{":h": num(2)}), 0, 1, 0},
		{"an index key", p.change("SET h = :h", item{":h": num(2)}), 0, 3, 0},
		{"out of the index", p.change("REMOVE g", nil), 0, 2, 0},
	}
	for _, tt := range tests {
		before := db.Meter()
		require.NoError(t, tt.do(), tt.name)
		used := db.Meter().Sub(before)
		require.Equal(t, tt.read, used.ReadUnits(), "%s: read", tt.name)
		require.Equal(t, tt.write, used.WriteUnits(), "%s: write", tt.name)
		require.Equal(t, tt.refused, used.Refused(), "%s: refused", tt.name)
		require.EqualValues(t, 1, used.Requests(), tt.name)
	}
	require.Contains(t, db.Meter().String(), "DeleteItem: 2 requests, 0 RCU, 6 WCU, 0 refused\n")
}

// TestConsumedCapacity wants the details of an answer.
func TestConsumedCapacity(t *testing.T) {
	db := ddbmem.New()
	client := db.Client(once)
	createTable(t, client, "indexed", true, withIndex)
	in := &dynamodb.PutItemInput{TableName: aws.String("indexed"), Item: item{"PK": str("a"), "SK": str("b"), "g": str("G"), "h": num(1)}}
	for _, detail := range []types.ReturnConsumedCapacity{"", types.ReturnConsumedCapacityNone} {
		in.ReturnConsumedCapacity = detail
		out, err := client.PutItem(t.Context(), in)
		require.NoError(t, err)
		require.Nil(t, out.ConsumedCapacity)
	}
	in.Item["n"] = num(1)
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	out, err := client.PutItem(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "indexed", *out.ConsumedCapacity.TableName)
	require.Equal(t, 2.0, *out.ConsumedCapacity.CapacityUnits)
	require.Equal(t, 1.0, *out.ConsumedCapacity.Table.CapacityUnits)
	require.Equal(t, 1.0, *out.ConsumedCapacity.GlobalSecondaryIndexes["byG"].CapacityUnits)
	query, err := client.Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String("indexed"), IndexName: aws.String("byG"), KeyConditionExpression: aws.String("g = :g"),
		ExpressionAttributeValues: item{":g": str("G")}, ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
	})
	require.NoError(t, err)
	require.Equal(t, 0.5, *query.ConsumedCapacity.GlobalSecondaryIndexes["byG"].CapacityUnits)
	require.Equal(t, 0.0, *query.ConsumedCapacity.Table.CapacityUnits)
	batch, err := client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{
		RequestItems:           map[string]types.KeysAndAttributes{"indexed": {Keys: []item{{"PK": str("a"), "SK": str("b")}, {"PK": str("x"), "SK": str("y")}}, ConsistentRead: aws.Bool(true)}},
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	require.NoError(t, err)
	require.Equal(t, 2.0, *batch.ConsumedCapacity[0].CapacityUnits)
}
