package ddbmem_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// onceFor is a fault for the first request of the operation.
func onceFor(operation string, f ddbmem.Fault) ddbmem.FaultFunc {
	done := false
	return func(r *ddbmem.Request) ddbmem.Fault {
		if done || r.Operation != operation {
			return ddbmem.Fault{}
		}
		done = true
		return f
	}
}

func once(o *dynamodb.Options) { o.RetryMaxAttempts = 1 }

func addOne(ctx context.Context, client *dynamodb.Client) error {
	_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String("faults"), Key: item{"PK": str("a")}, UpdateExpression: aws.String("ADD n :one"),
		ExpressionAttributeValues: item{":one": num(1)},
	})
	return err
}

func count(t *testing.T, client *dynamodb.Client) string {
	t.Helper()
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("faults"), Key: item{"PK": str("a")}})
	require.NoError(t, err)
	if out.Item == nil {
		return "absent"
	}
	return out.Item["n"].(*types.AttributeValueMemberN).Value
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name  string
		fault ddbmem.Fault
		fails bool // with a single try
		after string
		again string // with the SDK's own retries
	}{
		{"none", ddbmem.Fault{}, false, "1", "1"},
		{"dropped request", ddbmem.Fault{Drop: true}, true, "absent", "1"},
		{"lost answer", ddbmem.Fault{Lose: true}, true, "1", "2"},
		{"throttled", ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}, true, "absent", "1"},
		{"server error", ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError"}}, true, "absent", "1"},
		{"not retryable", ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException"}}, true, "absent", "absent"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := ddbmem.New()
				defer db.Close()
				client := db.Client(once)
				createTable(t, client, "faults", false)
				db.SetFaults(onceFor("UpdateItem", tt.fault))
				err := addOne(t.Context(), client)
				require.Equal(t, tt.fails, err != nil, "%v", err)
				require.Equal(t, tt.after, count(t, client))

				db = ddbmem.New()
				client = db.Client()
				createTable(t, client, "faults", false)
				db.SetFaults(onceFor("UpdateItem", tt.fault))
				_ = addOne(t.Context(), client) // the item tells
				require.Equal(t, tt.again, count(t, client))
			})
		})
	}
}

func TestLateRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New()
		client := db.Client(once)
		createTable(t, client, "faults", false)
		let := make(chan struct{})
		db.SetFaults(onceFor("UpdateItem", ddbmem.Fault{Late: let}))
		require.ErrorContains(t, addOne(t.Context(), client), "connection reset")
		require.Equal(t, "absent", count(t, client))
		require.NoError(t, addOne(t.Context(), client))
		close(let)
		db.Wait()
		require.Equal(t, "2", count(t, client))
		db.SetFaults(onceFor("UpdateItem", ddbmem.Fault{Late: make(chan struct{})}))
		require.Error(t, addOne(t.Context(), client))
		db.Close() // drops it
		require.Equal(t, "2", count(t, client))
	})
}

// Wait may be called while late requests begin and end, and returns after those that had begun.
func TestWaitBesideLateRequests(t *testing.T) {
	db := ddbmem.New()
	client := db.Client(once)
	createTable(t, client, "faults", false)
	let := make(chan struct{})
	close(let)
	db.SetFaults(func(r *ddbmem.Request) (f ddbmem.Fault) {
		if r.Operation == "UpdateItem" {
			f.Late = let
		}
		return f
	})
	const workers, each = 4, 50
	var calls sync.WaitGroup
	for range workers {
		calls.Go(func() {
			for range each {
				if err := addOne(t.Context(), client); err == nil {
					t.Error("a late request has no answer")
				}
				db.Wait()
			}
		})
	}
	calls.Wait()
	require.Equal(t, fmt.Sprint(workers*each), count(t, client))
}

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

// reply is what a client sees.
type reply struct {
	status int
	header http.Header
	body   string
}

// call sends a request as any client might, in process or to a server.
func call(t *testing.T, do func(*http.Request) (*http.Response, error), url, target, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	req.Header.Set("X-Amz-Target", target)
	resp, err := do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{resp.StatusCode, resp.Header, string(answer)}
}

func TestProtocol(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("east", 3600))
	db := ddbmem.New(ddbmem.WithClock(func() time.Time { return now }))
	server := httptest.NewServer(db)
	defer server.Close()
	tests := []struct {
		target, body string
		status       int
		answer       string
	}{
		{"DynamoDB_20120810.ListTables", `{}`, 200, `{"TableNames":[]}`},
		{"DynamoDB_20120810.ListTables", ` { "Limit" : 5 , "ExclusiveStartTableName" : null } `, 200, `{"TableNames":[]}`},
		{"DynamoDB_20120810.GetItem", `{"TableName":"none","Key":{"a":{"S":"b"}}}`, 400, `{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"Requested resource not found"}`},
		{"DynamoDB_20120810.GetItem", `{"TableName":"none"}`, 400, "Member must not be null"},
		{"DynamoDB_20120810.GetItem", `{"Unheard":1}`, 400, "ddbmem does not support Unheard in GetItem"},
		{"DynamoDB_20120810.GetItem", `{`, 400, "SerializationException"},
		{"DynamoDB_20120810.GetItem", `{"TableName":7}`, 400, "SerializationException"},
		{"DynamoDB_20120810.GetItem", `{"TableName":"none","Key":{"a":{"S":"b"}}} x`, 400, "SerializationException"},
		{"DynamoDB_20120810.GetItem", ``, 400, "SerializationException"},
		{"DynamoDB_20120810.CreateGlobalTable", `{}`, 400, "ddbmem does not support CreateGlobalTable"},
		{"Kinesis_20131202.PutRecord", `{}`, 400, "UnknownOperationException"},
		{"", ``, 400, "UnknownOperationException"},
	}
	for _, tt := range tests {
		for _, over := range []struct {
			do  func(*http.Request) (*http.Response, error)
			url string
		}{{db.Do, "http://in.process"}, {server.Client().Do, server.URL}} {
			got := call(t, over.do, over.url, tt.target, tt.body)
			require.Equal(t, tt.status, got.status, "%s %s", tt.target, tt.body)
			require.Contains(t, got.body, tt.answer)
			require.Equal(t, "application/x-amz-json-1.0", got.header.Get("Content-Type"))
			require.Equal(t, "Fri, 02 Jan 2026 02:04:05 GMT", got.header.Get("Date"))
			require.Equal(t, strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(got.body))), 10), got.header.Get("X-Amz-Crc32"))
			require.Len(t, got.header.Get("X-Amzn-RequestId"), 52)
		}
	}
}

func TestTooLargeRequest(t *testing.T) {
	server := httptest.NewServer(ddbmem.New())
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader(make([]byte, 17<<20)))
	require.NoError(t, err)
	resp, err := server.Client().Do(req)
	if err == nil { // the server may close before all is sent
		require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
}
