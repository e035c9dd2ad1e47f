package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
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
		require.NoError(t, run(t.Context(), nil, &screen{Writer: &out}, io.Discard))
		assert.Less(t, time.Since(began), 5*time.Second)

		text := out.String()
		t.Log(text)
		for _, line := range []string{
			"ana asks for 1,403 tokens: a prompt of about 803, a reply of up to 600",
			"✓ admitted, one request and 1,403 tokens are taken",
			"fit in exactly 1.249s",
			"✓ admitted after 1.249s",
			"✗ denied by shop:",
			"ben  tpm ████████████████████████ 12,000 of 12,000",
			"✗ the model failed: 503 overloaded; all was given back",
			"✓ 100 admitted, 300 denied",
			"write units and",
		} {
			assert.Contains(t, text, line)
		}
		assert.NotContains(t, text, "\x1b", "no colour but on a terminal")
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

// TestTourOnEndpoint plays it over HTTP: on the engine at
// DYNALIMIT_TEST_ENDPOINT, else on a ddbmem behind a server.
func TestTourOnEndpoint(t *testing.T) {
	endpoint := os.Getenv("DYNALIMIT_TEST_ENDPOINT")
	if endpoint == "" {
		db := ddbmem.New()
		server := httptest.NewServer(db)
		t.Cleanup(func() { server.Close(); db.Close() })
		endpoint = server.URL
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	table := fmt.Sprintf("quickstart-%d", os.Getpid())
	e, err := connect(t.Context(), table, endpoint)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := e.client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &table})
		require.NoError(t, err)
	})

	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-table", table, "-endpoint", endpoint}, &screen{Writer: &out}, io.Discard))
	assert.Contains(t, out.String(), "on table "+table+" at "+endpoint)
	assert.Contains(t, out.String(), "✓ 100 admitted, 300 denied")
	assert.Empty(t, entitiesLeft(t, e), "the tour removes what it made")
}

// entitiesLeft lists the keys of every item that belongs to an entity.
func entitiesLeft(t *testing.T, e *engine) []string {
	t.Helper()
	found, err := e.client.Scan(t.Context(), &dynamodb.ScanInput{
		TableName: &e.table, ProjectionExpression: aws.String("PK, SK"), ConsistentRead: aws.Bool(true),
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
		e, err := connect(ctx, "", "")
		require.NoError(t, err)
		defer e.close()
		var out bytes.Buffer
		assert.ErrorIs(t, play(ctx, e, &screen{Writer: &out}), context.Canceled)
		assert.Contains(t, out.String(), "Wait stands in line")
		assert.NotContains(t, out.String(), "admitted after")
		assert.Empty(t, entitiesLeft(t, e), "also when it is interrupted")
	})
}

func TestCommandLine(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-endpoint", "localhost:8000"}, "write it like http://127.0.0.1:8000"},
		{[]string{"-table", "limits"}, "set AWS_REGION"},
		{[]string{"limits"}, `unknown argument "limits"; -h lists the flags`},
	} {
		assert.ErrorContains(t, run(t.Context(), c.args, &screen{Writer: io.Discard}, io.Discard), c.want)
	}
	var usage bytes.Buffer
	assert.ErrorIs(t, run(t.Context(), []string{"-h"}, &screen{Writer: io.Discard}, &usage), flag.ErrHelp)
	assert.Contains(t, usage.String(), "-endpoint URL")
}

func TestScreen(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()
	assert.False(t, newScreen(file, func(string) string { return "" }).colour, "a file is no terminal")

	s := &screen{}
	assert.Equal(t, strings.Repeat("█", 24), s.bar(10, 10))
	assert.Equal(t, strings.Repeat("█", 12)+strings.Repeat("░", 12), s.bar(5, 10))
	assert.Equal(t, strings.Repeat("░", 24), s.bar(-3, 10), "in debt")
	s.colour = true
	assert.Equal(t, "\x1b[32mok\x1b[0m", s.paint(green, "ok"))

	assert.Equal(t, "0 999 1,000 -12,345 1,234,567",
		strings.Join([]string{grouped(0), grouped(999), grouped(1000), grouped(-12_345), grouped(1_234_567)}, " "))
}
