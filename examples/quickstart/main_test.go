package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/ddbmem"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, // the SDK keeps its idle connections to an engine
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// TestTour plays the tour in virtual time, where every wait is exact.
func TestTour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		began := time.Now()
		require.NoError(t, run(t.Context(), nil, &out, io.Discard))
		assert.Less(t, time.Since(began), 5*time.Second)

		text := out.String()
		t.Log(text)
		for _, line := range []string{
			"✓ the model used 1050, so 350 are given back",
			"✓ admitted after 1.25s",
			"✗ ben asks for 10000 tokens: shop has",
			"ben  tpm ████████████████████████ 12000 of 12000",
			"100 admitted, 300 denied",
			"degraded true",
		} {
			assert.Contains(t, text, line)
		}
		assert.Contains(t, text, shownInReadme(t))
	})
}

// shownInReadme is the part of the tour that the README shows.
func shownInReadme(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, shown, found := strings.Cut(string(readme), "```text\n")
	require.True(t, found)
	shown, _, _ = strings.Cut(shown, "```")
	require.Contains(t, shown, "Denied with an exact wait")
	return shown
}

// TestTourOnEndpoint plays it over HTTP: on the engine at DYNALIMIT_TEST_ENDPOINT, else on a
// ddbmem behind a server.
func TestTourOnEndpoint(t *testing.T) {
	endpoint := os.Getenv("DYNALIMIT_TEST_ENDPOINT")
	if endpoint == "" {
		db := ddbmem.New()
		server := httptest.NewServer(db)
		t.Cleanup(func() { server.Close(); db.Close() })
		endpoint = server.URL
	}
	table := fmt.Sprintf("quickstart-%d", os.Getpid())
	client := dynamodb.New(dynamodb.Options{BaseEndpoint: &endpoint, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("local", "local", "")})
	t.Cleanup(func() {
		_, err := client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &table})
		require.NoError(t, err)
	})
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-table", table, "-endpoint", endpoint}, &out, io.Discard))
	assert.Contains(t, out.String(), "100 admitted, 300 denied")
	assert.NotContains(t, out.String(), "does not answer")
	assert.Empty(t, entitiesLeft(t, client, table), "the tour removes what it made")
}

// entitiesLeft lists the keys of every item that belongs to an entity.
func entitiesLeft(t *testing.T, client *dynamodb.Client, table string) []string {
	t.Helper()
	found, err := client.Scan(t.Context(), &dynamodb.ScanInput{
		TableName: &table, ProjectionExpression: aws.String("PK, SK"), ConsistentRead: aws.Bool(true),
	})
	require.NoError(t, err)
	require.NotEmpty(t, found.Items, "the configuration stays")
	var left []string
	for _, item := range found.Items {
		if key := fmt.Sprintf("%v %v", item["PK"], item["SK"]); strings.Contains(key, "ENTITY#") {
			left = append(left, key)
		}
	}
	return left
}

func TestTourStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(700*time.Millisecond, cancel).Stop() // while it waits for its turn
		db := ddbmem.New()
		defer db.Close()
		var out bytes.Buffer
		tour := &tour{out: &out, client: db.Client(), table: "limits", db: db}
		require.ErrorIs(t, tour.play(ctx), context.Canceled)
		assert.Contains(t, out.String(), "fit in exactly")
		assert.NotContains(t, out.String(), "admitted after")
		assert.Empty(t, entitiesLeft(t, tour.client, tour.table), "also when it is interrupted")
	})
}

func TestCommandLine(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"limits"}, io.Discard, io.Discard), `unknown argument "limits"; -h lists the flags`)
	var usage bytes.Buffer
	require.ErrorIs(t, run(t.Context(), []string{"-h"}, io.Discard, &usage), flag.ErrHelp)
	assert.Contains(t, usage.String(), "-endpoint URL")
}
