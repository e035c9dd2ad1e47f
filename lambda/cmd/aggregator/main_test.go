package main

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func environment(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func TestConfiguration(t *testing.T) {
	c, err := readConfig(environment(map[string]string{envTable: "limits"}))
	require.NoError(t, err)
	assert.Equal(t, config{table: "limits"}, c)
	c, err = readConfig(environment(map[string]string{
		envTable: "limits", envRetention: "30", envWriters: "4", envTries: "5", envLevel: "WARN",
	}))
	require.NoError(t, err)
	assert.Equal(t, config{"limits", 30 * 24 * time.Hour, 4, 5, slog.LevelWarn}, c)
	c, err = readConfig(environment(map[string]string{envTable: "limits", envRetention: "0"}))
	require.NoError(t, err)
	assert.Negative(t, c.retention, "for ever")
}

// TestConfigurationIsRefusedWhole: everything that is wrong, with what to give.
func TestConfigurationIsRefusedWhole(t *testing.T) {
	_, err := readConfig(environment(map[string]string{envRetention: "90d", envWriters: "0", envTries: "-1", envLevel: "loud"}))
	require.Error(t, err)
	assert.Equal(t, `DYNALIMIT_TABLE is not set; give the name of the table whose stream calls the function
DYNALIMIT_RETENTION_DAYS is "90d"; give a whole number from 0 to 36500
DYNALIMIT_WRITERS is "0"; give a whole number from 1 to 1000
DYNALIMIT_TRIES is "-1"; give a whole number from 1 to 100
DYNALIMIT_LOG_LEVEL is "loud"; give debug, info, warn or error`, err.Error())
	_, err = function(t.Context(), environment(nil), &bytes.Buffer{})
	assert.ErrorContains(t, err, envTable)
}

// TestTheFunctionCounts: a record that the function is called with, up to its snapshot.
func TestTheFunctionCounts(t *testing.T) {
	db := ddbmem.New()
	t.Cleanup(db.Close)
	repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(t.Context()))
	var log bytes.Buffer
	h, err := newHandler(db.Client(), config{table: "limits"}, &log)
	require.NoError(t, err)
	answer, err := h.Invoke(context.Background(), []byte(`{"Records":[{"eventID":"1","dynamodb":{"ApproximateCreationDateTime":1774785600,"SequenceNumber":"101",
		"Keys":{"PK":{"S":"ENTITY#a"},"SK":{"S":"#BUCKET#b"}},"NewImage":{"b_rpm_tc":{"N":"1000"}}}}]}`))
	require.NoError(t, err)
	assert.JSONEq(t, `{"batchItemFailures":[]}`, string(answer))
	assert.Contains(t, log.String(), `"RecordsCounted":1`)
	assert.Contains(t, log.String(), `"Namespace":"dynalimit"`)
	assert.Contains(t, log.String(), `"table":"limits"`)

	answer, err = h.Invoke(context.Background(), []byte(`{"detail-type":"Scheduled Event","source":"aws.events"}`))
	require.NoError(t, err)
	assert.JSONEq(t, "null", string(answer))
	assert.Contains(t, log.String(), `"HoursClosed"`)
}
