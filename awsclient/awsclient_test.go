package awsclient_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/awsclient"
)

// alone leaves nothing of the machine's AWS configuration, and sets what is given.
func alone(t *testing.T, env map[string]string) {
	t.Helper()
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
			require.NoError(t, os.Unsetenv(name))
		}
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	for name, value := range env {
		t.Setenv(name, value)
	}
}

func TestClientKeepsItsConnections(t *testing.T) {
	alone(t, map[string]string{"AWS_REGION": "eu-west-1"})
	client, err := awsclient.New(t.Context(), nil)
	require.NoError(t, err)
	pool, ok := client.Options().HTTPClient.(*awshttp.BuildableClient)
	require.True(t, ok)
	assert.Equal(t, awsclient.IdleConnections, pool.GetTransport().MaxIdleConnsPerHost)
	assert.GreaterOrEqual(t, pool.GetTransport().MaxIdleConns, awsclient.IdleConnections)
	assert.Equal(t, "eu-west-1", client.Options().Region)

	own := &http.Client{}
	assert.Same(t, own, awsclient.FromConfig(aws.Config{HTTPClient: own}).Options().HTTPClient, "a client of the caller's stays")
}

func TestLeanClientIsTheSame(t *testing.T) {
	alone(t, map[string]string{"AWS_REGION": "eu-west-1"})
	client, err := awsclient.NewLean(t.Context(), &awsclient.Options{Endpoint: "http://localhost:8000"})
	require.NoError(t, err)
	pool, ok := client.Options().HTTPClient.(*awshttp.BuildableClient)
	require.True(t, ok)
	assert.Equal(t, awsclient.IdleConnections, pool.GetTransport().MaxIdleConnsPerHost)
	assert.Equal(t, "http://localhost:8000", *client.Options().BaseEndpoint)

	alone(t, nil)
	_, err = awsclient.NewLean(t.Context(), nil)
	require.ErrorContains(t, err, "options.Region")
}

func TestClientTakesItsOptions(t *testing.T) {
	alone(t, map[string]string{"AWS_REGION": "eu-west-1"})
	client, err := awsclient.New(t.Context(), &awsclient.Options{Region: "eu-north-1", Endpoint: "http://localhost:8000"})
	require.NoError(t, err)
	assert.Equal(t, "eu-north-1", client.Options().Region)
	assert.Equal(t, "http://localhost:8000", *client.Options().BaseEndpoint)

	_, err = awsclient.New(t.Context(), &awsclient.Options{Profile: "nobody"})
	require.ErrorContains(t, err, "nobody")
	alone(t, nil)
	_, err = awsclient.New(t.Context(), nil)
	require.ErrorContains(t, err, "options.Region")
}

// The adaptive mode holds requests back in the process. It is not followed, and told once.
func TestAdaptiveRetriesAreNotFollowed(t *testing.T) {
	alone(t, map[string]string{"AWS_REGION": "eu-west-1", "AWS_RETRY_MODE": "adaptive"})
	var logged bytes.Buffer
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	want := awsclient.FromConfig(aws.Config{Region: "eu-west-1"}).Options().Retryer
	for range 2 {
		client, err := awsclient.New(t.Context(), nil)
		require.NoError(t, err)
		assert.IsType(t, want, client.Options().Retryer)
		assert.NotEqual(t, aws.RetryModeAdaptive, client.Options().RetryMode)
	}
	assert.Equal(t, 1, strings.Count(logged.String(), "the configuration says adaptive"))

	adaptive := dynamodb.NewFromConfig(aws.Config{Region: "eu-west-1", RetryMode: aws.RetryModeAdaptive})
	assert.NotEqual(t, aws.RetryModeStandard, adaptive.Options().RetryMode, "the SDK follows it")
}
