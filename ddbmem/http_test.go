package ddbmem_test

import (
	"bytes"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

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
