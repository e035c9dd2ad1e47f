package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator/archive"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func environment(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func TestConfiguration(t *testing.T) {
	c, err := readConfig(environment(map[string]string{envTable: "limits"}))
	require.NoError(t, err)
	assert.Equal(t, config{table: "limits", webhook: webhook{holder: "aggregator"}}, c)
	c, err = readConfig(environment(map[string]string{
		envTable: "limits", envRetention: "30", envWriters: "4", envTries: "5", envLevel: "WARN",
	}))
	require.NoError(t, err)
	assert.Equal(t, config{"limits", 30 * 24 * time.Hour, 4, 5, slog.LevelWarn, place{}, webhook{holder: "aggregator"}}, c)
	c, err = readConfig(environment(map[string]string{envTable: "limits", envBucket: "kept", envPrefix: "limits/", envKMSKey: "alias/k"}))
	require.NoError(t, err)
	assert.Equal(t, config{table: "limits", archive: place{"kept", "limits/", "alias/k"}, webhook: webhook{holder: "aggregator"}}, c)
	c, err = readConfig(environment(map[string]string{envTable: "limits", envRetention: "0"}))
	require.NoError(t, err)
	assert.Negative(t, c.retention, "for ever")
}

// TestConfigurationIsRefusedWhole: everything that is wrong, with what to give.
func TestConfigurationIsRefusedWhole(t *testing.T) {
	_, err := readConfig(environment(map[string]string{envRetention: "90d", envWriters: "0", envTries: "-1", envLevel: "loud", envPrefix: "p", envFormat: "xml", envWebhook: "https://a", envSecretARN: "arn:b"}))
	require.Error(t, err)
	assert.Equal(t, `DYNALIMIT_TABLE is not set; give the name of the table whose stream calls the function
DYNALIMIT_RETENTION_DAYS is "90d"; give a whole number from 0 to 36500
DYNALIMIT_WRITERS is "0"; give a whole number from 1 to 1000
DYNALIMIT_TRIES is "-1"; give a whole number from 1 to 100
DYNALIMIT_ALERT_FORMAT is "xml"; give json or slack
DYNALIMIT_ALERT_WEBHOOK and DYNALIMIT_ALERT_SECRET_ARN are both set; leave one of them out
DYNALIMIT_ARCHIVE_PREFIX or DYNALIMIT_ARCHIVE_KMS_KEY is set, and DYNALIMIT_ARCHIVE_BUCKET is not; give the name of the bucket, or neither
DYNALIMIT_LOG_LEVEL is "loud"; give debug, info, warn or error`, err.Error())
	_, err = newFunction(t.Context(), environment(nil), &bytes.Buffer{})
	assert.ErrorContains(t, err, envTable)
}

// newTable returns a store with the table limits.
func newTable(t *testing.T) *ddbmem.DB {
	t.Helper()
	db := ddbmem.New()
	t.Cleanup(db.Close)
	repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(t.Context()))
	return db
}

// TestTheFunctionCounts: a record that the function is called with, up to its snapshot.
func TestTheFunctionCounts(t *testing.T) {
	db := newTable(t)
	var log bytes.Buffer
	h, err := newHandler(db.Client(), config{table: "limits"}, nil, &log)
	require.NoError(t, err)
	assert.Contains(t, log.String(), `"retention":"default","tries":"default"`)
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

// objects is an S3 that keeps what is put, unless it fails.
type objects struct {
	put  []*s3.PutObjectInput
	data [][]byte
	err  error
}

// PutObject implements s3archive.S3.
func (o *objects) PutObject(_ context.Context, in *s3.PutObjectInput, _ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	if o.err != nil {
		return nil, o.err
	}
	data, err := io.ReadAll(in.Body)
	o.put, o.data = append(o.put, in), append(o.data, data)
	return &s3.PutObjectOutput{}, err
}

// expiredHour is an event of an hour of usage that expired, and of a bucket that did.
const expiredHour = `{"Records":[{"eventID":"e1","eventName":"REMOVE","userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},
	"dynamodb":{"ApproximateCreationDateTime":1774785600,"SequenceNumber":"101","Keys":{"PK":{"S":"ENTITY#a"},"SK":{"S":"#USAGE#b#2026-03-29T12:00:00Z"}},
	"OldImage":{"PK":{"S":"ENTITY#a"},"SK":{"S":"#USAGE#b#2026-03-29T12:00:00Z"},"window":{"S":"hourly"},"window_start":{"S":"2026-03-29T12:00:00Z"},"u_rpm_n":{"N":"2500"}}}},
	{"eventID":"e2","eventName":"REMOVE","userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},
	"dynamodb":{"ApproximateCreationDateTime":1774785600,"SequenceNumber":"102","Keys":{"PK":{"S":"ENTITY#a"},"SK":{"S":"#BUCKET#b"}},"OldImage":{}}}]}`

// TestTheFunctionArchives: with a bucket it writes what expired, encrypted under the key,
// and counts nothing.
func TestTheFunctionArchives(t *testing.T) {
	client, log := &objects{}, bytes.Buffer{}
	h, err := newArchiver(client, config{table: "limits", archive: place{"kept", "limits/", "alias/k"}}, &log)
	require.NoError(t, err)
	answer, err := h.Invoke(t.Context(), []byte(expiredHour))
	require.NoError(t, err)
	assert.JSONEq(t, `{"batchItemFailures":[]}`, string(answer))
	require.Len(t, client.put, 1)
	in := client.put[0]
	assert.Equal(t, "kept", *in.Bucket)
	assert.Regexp(t, `^limits/usage/hour/date=2026-03-29/.*\.jsonl\.gz$`, *in.Key)
	assert.Equal(t, types.ServerSideEncryptionAwsKms, in.ServerSideEncryption)
	assert.Equal(t, "alias/k", *in.SSEKMSKeyId)
	for line, err := range archive.Read(bytes.NewReader(client.data[0])) {
		require.NoError(t, err)
		assert.Equal(t, "e1", line.EventID)
		assert.EqualValues(t, 2500, line.Limits["rpm"].Consumed)
	}
	assert.Contains(t, log.String(), `"ArchiveWritten":1`)
	for _, name := range []string{"Records", "StreamAgeSeconds", "UsageGaps", "HoursClosed"} {
		assert.NotContains(t, log.String(), name, "it is the aggregator's, of the same table")
	}
	_, err = h.Invoke(t.Context(), []byte(`{"detail-type":"Scheduled Event","source":"aws.events"}`))
	assert.Error(t, err, "it closes nothing")
}

// TestWhatCannotBeArchivedComesAgain, however often S3 fails.
func TestWhatCannotBeArchivedComesAgain(t *testing.T) {
	client := &objects{err: errors.New("SlowDown")}
	h, err := newArchiver(client, config{table: "limits", tries: 1, archive: place{bucket: "kept"}}, io.Discard)
	require.NoError(t, err)
	for range 10 {
		answer, err := h.Invoke(t.Context(), []byte(expiredHour))
		require.NoError(t, err)
		assert.JSONEq(t, `{"batchItemFailures":[{"itemIdentifier":"101"}]}`, string(answer))
	}
	client.err = nil
	answer, err := h.Invoke(t.Context(), []byte(expiredHour))
	require.NoError(t, err)
	assert.JSONEq(t, `{"batchItemFailures":[]}`, string(answer))
	assert.Len(t, client.put, 1)
	assert.Empty(t, client.put[0].ServerSideEncryption, "as the bucket says")
	_, err = newArchiver(client, config{table: "limits", archive: place{bucket: "kept", prefix: "../x"}}, io.Discard)
	assert.ErrorContains(t, err, "Prefix")
}
