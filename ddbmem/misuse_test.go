package ddbmem_test

import (
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// What is nil is as if it were not given.
func TestNilIsNotGiven(t *testing.T) {
	db := ddbmem.New(nil, ddbmem.WithClock(nil))
	db.OnWrite(nil)
	db.SetFaults(nil)
	client := db.Client()
	createTable(t, client, "things", false)
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: new("things"), Item: item{"PK": str("a")}})
	require.NoError(t, err)
}

// A DB that New did not make says so.
func TestZeroDBSaysSo(t *testing.T) {
	for _, db := range []*ddbmem.DB{nil, {}} {
		client := db.Client(func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })
		_, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
		require.ErrorContains(t, err, "ddbmem.New()")
		answer := httptest.NewRecorder()
		db.ServeHTTP(answer, httptest.NewRequest("POST", "/", nil))
		assert.Equal(t, 500, answer.Code)
		assert.NotPanics(t, db.Close)
		assert.NotPanics(t, func() { assert.Zero(t, db.ExpireNow()) })
	}
}
