package ddbmem_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestOnWrite(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	e := engine{client: db.Client(once)}
	table := e.table(t, false)
	var seen []string
	db.OnWrite(func(w ddbmem.Write) {
		require.Equal(t, *table, w.Table)
		require.Equal(t, now, w.Time)
		seen = append(seen, fmt.Sprintf("%d %s request %d: %s>%s", w.Seq, w.Operation, w.RequestSeq, showItem(w.Old), showItem(w.New)))
	})
	calls := 0
	db.OnWrite(func(ddbmem.Write) { calls++ })
	put(t, e, table, item{"PK": str("a"), "n": num(1)})
	require.NoError(t, transact(t, e, nil, addIf(table, "a", 1, 0), types.TransactWriteItem{Put: &types.Put{TableName: table, Item: item{"PK": str("b")}}}))
	require.Error(t, transact(t, e, nil, addIf(table, "a", 1, 9)))
	for range 2 { // the second finds nothing to delete
		_, err := e.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: table, Key: item{"PK": str("a")}})
		require.NoError(t, err)
	}
	require.Equal(t, []string{
		`1 PutItem request 2: {}>{PK="a" n=1}`,
		`2 TransactWriteItems request 3: {PK="a" n=1}>{PK="a" n=2}`,
		`3 TransactWriteItems request 3: {}>{PK="b"}`,
		`4 DeleteItem request 5: {PK="a" n=2}>{}`,
	}, seen)
	require.Equal(t, len(seen), calls)
}

func TestLog(t *testing.T) {
	db := ddbmem.New(ddbmem.WithLog())
	e := engine{client: db.Client(once)}
	table := e.table(t, false)
	db.ResetLog()
	put(t, e, table, item{"PK": str("a")})
	require.Error(t, transact(t, e, nil, addIf(table, "a", 1, 9)))
	get(t, e, table, item{"PK": str("a")})
	_, err := e.client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{*table: {Keys: keys(2)}}})
	require.NoError(t, err)
	log := db.Log()
	require.Len(t, log, 4)
	for i, want := range []struct {
		operation, err string
		read, write    float64
	}{{"PutItem", "", 0, 1}, {"TransactWriteItems", "TransactionCanceledException", 0, 2}, {"GetItem", "", 1, 0}, {"BatchGetItem", "", 1, 0}} {
		require.Equal(t, want.operation, log[i].Operation)
		require.Equal(t, *table, log[i].Table)
		require.Equal(t, want.err, log[i].Error)
		require.Equal(t, want.read, log[i].ReadUnits)
		require.Equal(t, want.write, log[i].WriteUnits)
		require.Contains(t, string(log[i].Body), *table)
	}
	require.Empty(t, ddbmem.New().Log())
	require.Equal(t, aws.ToString(table), log[0].Table)
}
