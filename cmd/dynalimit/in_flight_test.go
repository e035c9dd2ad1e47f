package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

// TestCallsInFlightTranscript plays a session with a limit of calls in flight.
func TestCallsInFlightTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.must("resource", "set", "llama", "inflight=3/concurrent,longest=10m")
	limiter, err := dynalimit.New(s.repository(), nil)
	require.NoError(t, err)
	_, err = limiter.Acquire(t.Context(), "key-1", "llama", dynalimit.Amounts{"inflight": 2})
	require.NoError(t, err)
	require.NoError(t, limiter.Close(t.Context()))
	s.golden("in_flight.txt", [][]string{
		{"resource", "show", "llama"},
		{"limits", "set", "key-2", "--resource", "llama", "inflight=5/concurrent,hold=2m,burst=9"},
		{"limits", "set", "key-2", "--resource", "llama", "inflight=5/concurrent,hold=2m"},
		{"limits", "set", "key-2", "--resource", "llama", "inflight=5"},
		{"limits", "add", "key-2", "--resource", "llama", "inflight=6", "--dry-run"},
		{"check", "key-1", "llama", "inflight=1"},
		{"check", "key-1", "llama", "inflight=2"},
		{"check", "key-1", "llama", "inflight=4", "--json"},
		{"entity", "buckets", "key-1", "--resource", "llama"},
		{"top", "--resource", "llama"},
		{"top", "--resource", "llama", "--json"},
		{"bucket", "reset", "key-1", "llama", "--dry-run"},
		{"bucket", "top-up", "key-1", "llama", "inflight=1"},
		{"manifest", "export"},
	})
}
