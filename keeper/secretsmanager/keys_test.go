package secretsmanager

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vault answers as Secrets Manager does, and keeps what it was asked.
type vault struct {
	client *secretsmanager.Client
	asked  []map[string]any
	status int
	answer map[string]any
}

func newVault(t *testing.T) *vault {
	v := &vault{status: http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "secretsmanager.GetSecretValue", r.Header.Get("X-Amz-Target"))
		var body map[string]any
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		v.asked = append(v.asked, body)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(v.status)
		assert.NoError(t, json.NewEncoder(w).Encode(v.answer))
	}))
	t.Cleanup(server.Close)
	v.client = secretsmanager.New(secretsmanager.Options{
		Region: "eu-west-1", BaseEndpoint: &server.URL, HTTPClient: server.Client(), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("x", "y", ""),
	})
	return v
}

// The current version is read, anew each time, whether it is text or bytes.
func TestKeysAreReadFromTheSecret(t *testing.T) {
	v := newVault(t)
	load := Keys(v.client, "keeper/keys")
	assert.Empty(t, v.asked, "not before it is called")
	for _, answer := range []map[string]any{{"SecretString": `{"signing":[]}`}, {"SecretBinary": []byte(`{"signing":[]}`)}} {
		v.answer = answer
		document, err := load(t.Context())
		require.NoError(t, err)
		assert.JSONEq(t, `{"signing":[]}`, string(document))
	}
	assert.Equal(t, []map[string]any{{"SecretId": "keeper/keys"}, {"SecretId": "keeper/keys"}}, v.asked)
}

// A secret is read in the region of its ARN, or else in that of the configuration.
func TestKeysAreReadInTheirRegion(t *testing.T) {
	var scopes []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "/")
		_, scope, _ = strings.Cut(scope, "/") // what is before is the day
		scope, _, _ = strings.Cut(scope, "/")
		scopes = append(scopes, scope)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_, _ = w.Write([]byte(`{"SecretString":"{}"}`))
	}))
	defer server.Close()
	cfg := aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, HTTPClient: server.Client(), Credentials: credentials.NewStaticCredentialsProvider("x", "y", "")}
	for _, secret := range []string{"keeper/keys", "arn:aws:secretsmanager:us-east-2:123456789012:secret:keeper/keys-AbCdEf"} {
		_, err := FromConfig(cfg, secret)(t.Context())
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"eu-west-1", "us-east-2"}, scopes)
}

func TestSecretThatCannotBeRead(t *testing.T) {
	v := newVault(t)
	v.status, v.answer = http.StatusBadRequest, map[string]any{"__type": "ResourceNotFoundException", "Message": "can't find the specified secret"}
	_, err := Keys(v.client, "keeper/keys")(t.Context())
	require.ErrorContains(t, err, "keeper/keys cannot be read")
	require.ErrorContains(t, err, "ResourceNotFoundException")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Keys(v.client, "keeper/keys")(gone)
	require.ErrorIs(t, err, context.Canceled)
}

// TestMisuseIsSaid: a call without a context, a client or a name.
func TestMisuseIsSaid(t *testing.T) {
	v := newVault(t)
	var none *secretsmanager.Client
	var nobody context.Context
	for want, try := range map[string]func() ([]byte, error){
		"invalid client: ": func() ([]byte, error) { return Keys(none, "x")(t.Context()) },
		"invalid secret: ": func() ([]byte, error) { return Keys(v.client, "")(t.Context()) },
		"invalid ctx: ":    func() ([]byte, error) { return Keys(v.client, "x")(nobody) },
	} {
		_, err := try()
		require.ErrorContains(t, err, want)
	}
	_, err := Keys(nil, "x")(t.Context())
	require.ErrorContains(t, err, "invalid client: ")
	assert.Empty(t, v.asked)
}
