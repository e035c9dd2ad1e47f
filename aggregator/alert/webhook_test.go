package alert

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
)

// The vector of Standard Webhooks.
func TestSignature(t *testing.T) {
	w, err := NewWebhook("https://hooks.example.com/T0/B1/secret", &WebhookOptions{Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}})
	require.NoError(t, err)
	assert.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", w.signBody("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)))
}

func TestAddressesAreChecked(t *testing.T) {
	for address, good := range map[string]bool{
		"https://hooks.example.com/x": true, "http://127.0.0.1:1/x": true, "http://[::1]:1/x": true, "http://localhost/x": true,
		"http://hooks.example.com/x": false, "ftp://127.0.0.1/x": false, "hooks.example.com/secret": false, "": false, "https://user:%zz@x/secret": false,
	} {
		_, err := NewWebhook(address, nil)
		assert.Equal(t, good, err == nil, address)
		if err != nil {
			assert.NotContains(t, err.Error(), "secret")
		}
	}
	_, err := NewWebhook("https://x/y", &WebhookOptions{Secrets: []string{"short"}})
	require.Error(t, err)
	_, err = NewWebhook("https://x/y", &WebhookOptions{Format: "xml"})
	require.Error(t, err)
}

func someMessage() Message {
	return Message{ID: "m1", Open: 1, Alerts: []aggregator.Alert{{
		ID: "a1", Entity: "team-a", Resource: "all", Limit: "usd", Percent: 80, Used: 40_123_456_000, Amount: 50_000_000_000, Unit: "usd", Window: "day", End: time.Date(2026, 3, 30, 7, 0, 0, 0, time.UTC),
	}}}
}

// A receiver that redirects, for example to loopback, gets no second request, and errors do not show the address.
func TestAnswersOfReceivers(t *testing.T) {
	status, header := http.StatusOK, http.Header{}
	var got []byte
	var asked http.Header
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		asked = r.Header
		for name := range header {
			w.Header().Set(name, header.Get(name))
		}
		w.WriteHeader(status)
		_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 1<<20)))
	}))
	defer s.Close()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	w, err := NewWebhook(s.URL+"/T0/very-secret", &WebhookOptions{Secrets: []string{secret, secret}, Now: func() time.Time { return time.Unix(5, 0) }})
	require.NoError(t, err)
	require.NoError(t, w.Send(t.Context(), someMessage()))
	var body map[string]any
	require.NoError(t, json.Unmarshal(got, &body))
	assert.Equal(t, "team-a has used or reserved 80 % of usd of the day on all: $40.12 of $50.00, until 2026-03-30 07:00 UTC", body["text"])
	assert.Equal(t, "40.123456", body["alerts"].([]any)[0].(map[string]any)["used"])
	assert.Equal(t, "m1", asked.Get("Webhook-Id"))
	assert.Equal(t, "5", asked.Get("Webhook-Timestamp"))
	assert.Equal(t, w.signBody("m1", "5", got), asked.Get("Webhook-Signature"))

	slack, err := NewWebhook(s.URL, &WebhookOptions{Format: FormatSlack})
	require.NoError(t, err)
	require.NoError(t, slack.Send(t.Context(), someMessage()))
	body = nil
	require.NoError(t, json.Unmarshal(got, &body))
	assert.Len(t, body, 1, "the text alone")
	assert.Empty(t, asked.Get("Webhook-Signature"))

	for _, test := range []struct {
		status  int
		header  http.Header
		wait    time.Duration
		lasting bool
	}{
		{http.StatusInternalServerError, nil, 0, false},
		{http.StatusTooManyRequests, http.Header{"Retry-After": {"30"}}, 30 * time.Second, false},
		{http.StatusServiceUnavailable, http.Header{"Retry-After": {"9999999999"}}, time.Hour, false},
		{http.StatusServiceUnavailable, http.Header{"Retry-After": {"Thu, 01 Jan 1970 00:01:05 GMT"}}, time.Minute, false},
		{http.StatusServiceUnavailable, http.Header{"Retry-After": {"Thu, 01 Jan 1970 00:00:01 GMT"}}, 0, false},
		{http.StatusServiceUnavailable, http.Header{"Retry-After": {"-5"}}, 0, false},
		{http.StatusNotFound, nil, 0, true},
		{http.StatusGone, nil, 0, true},
		{http.StatusFound, http.Header{"Location": {other.URL}}, 0, false},
		{http.StatusTemporaryRedirect, http.Header{"Location": {other.URL}}, 0, false},
	} {
		status, header = test.status, test.header
		err := w.Send(t.Context(), someMessage())
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "very-se", "the address is a secret")
		wait, lasting := retryOf(err)
		assert.Equal(t, test.wait, wait, "%d", test.status)
		assert.Equal(t, test.lasting, lasting, "%d", test.status)
	}
	assert.Zero(t, elsewhere, "no redirect is followed")
	s.Close()
	err = w.Send(context.Background(), someMessage())
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "very-se")
	assert.Contains(t, w.String(), "127.0.0.1")
}

// Names are free texts: they must not become links or calls of everybody in a channel.
func TestTextIsNoMarkup(t *testing.T) {
	m := someMessage()
	m.Open, m.Late = 12_340, true
	m.Alerts[0].Entity, m.Alerts[0].Limit, m.Alerts[0].Percent = "<!channel> &\n\u0007", strings.Repeat("é", 100), 100
	text := Text(m)
	assert.NotContains(t, text, "<!channel>")
	assert.Contains(t, text, "&lt;!channel&gt; &amp; was denied a call by "+strings.Repeat("é", 80)+"… of the day")
	assert.Contains(t, text, "1 of 12340 alerts; the others follow.")
	m.Alerts[0].Shadow = true
	assert.Contains(t, Text(m), " would have been denied a call by ")
	assert.Contains(t, text, "more than a day old")
	assert.Equal(t, "-$0.50", AmountText("usd", -500_000_000))
	assert.Equal(t, "12.5", exactText("", 12_500))
}

// A host whose name resolves to an address of the sender's own network is refused at each connection, unless it is
// allowed. No request is made.
func TestPrivateReceivers(t *testing.T) {
	for address, public := range map[string]bool{
		"93.184.215.14:443": true, "[2606:2800:21f:cb07::1]:443": true,
		"10.1.2.3:443": false, "172.16.0.1:443": false, "192.168.1.1:443": false, "127.0.0.1:443": false, "169.254.169.254:80": false, "0.0.0.0:443": false,
		"[::1]:443": false, "[fe80::1]:443": false, "[fd00:ec2::254]:80": false, "[::ffff:10.1.2.3]:443": false, "[::ffff:127.0.0.1]:443": false, "224.0.0.1:443": false, "x": false,
		"100.100.100.200:80": false, "192.0.0.192:80": false, "198.18.0.1:80": false, "240.0.0.1:80": false, "[fec0::1]:80": false, "[64:ff9b:1::a00:1]:80": false,
		"[64:ff9b::5db8:d70e]:443": true, "[64:ff9b::a00:1]:443": false, "[64:ff9b::a9fe:a9fe]:80": false,
	} {
		assert.Equal(t, public, refusePrivate("tcp", address, nil) == nil, address)
	}
	asked := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer s.Close()
	address := strings.Replace(s.URL, "127.0.0.1", "0.0.0.0", 1) + "/T0/very-secret" // reaches the loopback host as well
	for _, allowed := range []bool{false, true} {
		w, err := NewWebhook(address, &WebhookOptions{AllowPrivate: allowed})
		require.NoError(t, err)
		w.client.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		w.client.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com"
		err = w.Send(t.Context(), someMessage())
		if allowed {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "not a public address")
		assert.NotContains(t, err.Error(), "very-se")
		assert.Zero(t, asked)
	}
	assert.Equal(t, 1, asked)
}
