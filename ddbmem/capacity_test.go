package ddbmem_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

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
