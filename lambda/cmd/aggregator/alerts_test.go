package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator/alert"
)

// spentRecord is an event of a bucket that has used 60 of 100 tokens a day and has an alert at 50 %.
func spentRecord(entity string) []byte {
	return fmt.Appendf(nil, `{"Records":[{"eventID":"%[1]s","dynamodb":{"ApproximateCreationDateTime":%[2]d,"SequenceNumber":"101",
		"Keys":{"PK":{"S":"ENTITY#%[1]s"},"SK":{"S":"#BUCKET#b"}},"NewImage":{"q_tpd_tc":{"N":"60000"},"q_tpd_tk":{"N":"40000"},"q_tpd_bx":{"N":"100000"},
		"q_tpd_w":{"N":"%[3]d"},"q_tpd_z":{"S":"day UTC"},"v_tpd@":{"S":"50"}}}}]}`, entity, time.Now().Unix(), time.Now().Unix()/86400)
}

// lockedBuffer is a buffer for log lines and metrics that goroutines write side by side, as they do to a file.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(line)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// The function decides alerts of records, and delivers them on its schedule to the webhook that the secret names then. While
// the secret cannot be read or names no webhook, the schedule fails, says why without the address, and closes hours.
func TestTheFunctionDeliversAlerts(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var message struct{ Alerts []struct{ Entity string } }
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&message))
		for _, a := range message.Alerts {
			got = append(got, fmt.Sprint(a.Entity, " ", r.URL.Path, " ", strings.Count(r.Header.Get("Webhook-Signature"), "v1,")))
		}
	}))
	defer s.Close()
	db := newTable(t)
	var log lockedBuffer
	var secret string
	var unread error
	h, err := newHandler(db.Client(), config{table: "limits", webhook: webhook{arn: "arn:a", holder: "function"}}, func(context.Context) (string, error) { return secret, unread }, &log)
	require.NoError(t, err)
	call := func(event []byte) error {
		_, err := h.Invoke(t.Context(), event)
		return err
	}
	schedule := []byte(`{"detail-type":"Scheduled Event","source":"aws.events"}`)

	require.NoError(t, call(spentRecord("first")))
	unread = errors.New("AccessDeniedException")
	require.ErrorContains(t, call(schedule), "the secret arn:a cannot be read: AccessDeniedException")
	assert.Contains(t, log.String(), `"HoursClosed"`)
	unread = nil
	require.ErrorContains(t, call(schedule), "is empty")
	secret = "ftp://host/very-secret"
	err = call(schedule)
	require.ErrorContains(t, err, "not of https")
	assert.NotContains(t, err.Error(), "very-secret")
	assert.Empty(t, got)

	key := "whsec_" + strings.Repeat("QUJD", 8)
	secret = s.URL + "/one\n" + key + "\n" + key
	require.NoError(t, call(schedule))
	assert.Equal(t, []string{"first /one 2"}, got)
	holder, err := alert.Delivering(t.Context(), db.Client(), "limits", time.Now())
	require.NoError(t, err)
	assert.Equal(t, "function", holder)

	secret = s.URL + "/hooks/two"
	require.NoError(t, call(spentRecord("second")))
	require.NoError(t, call(schedule))
	assert.Equal(t, []string{"first /one 2", "second /hooks/two 0"}, got)
	assert.Contains(t, log.String(), `"alerts were delivered"`)
	assert.NotContains(t, log.String(), "hooks")
}

// Without a webhook in its environment the function delivers nothing: alerts wait for another deliverer.
func TestTheFunctionWithoutAWebhook(t *testing.T) {
	db := newTable(t)
	h, err := newHandler(db.Client(), config{table: "limits"}, nil, &bytes.Buffer{})
	require.NoError(t, err)
	_, err = h.Invoke(t.Context(), []byte(`{"detail-type":"Scheduled Event"}`))
	require.NoError(t, err)
	holder, err := alert.Delivering(t.Context(), db.Client(), "limits", time.Now())
	require.NoError(t, err)
	assert.Empty(t, holder)
}

func TestFormatOfAReceiver(t *testing.T) {
	for address, want := range map[string]alert.Format{"https://hooks.slack.com/services/T0": alert.FormatSlack, "https://slack.com.example.org/a": "", "https://example.org": "", "%": ""} {
		assert.Equal(t, want, webhook{}.formatFor(address), address)
	}
	assert.Equal(t, alert.FormatJSON, webhook{format: alert.FormatJSON}.formatFor("https://hooks.slack.com/services/T0"))
}
