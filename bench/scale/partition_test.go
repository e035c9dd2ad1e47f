package scale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPartition(t *testing.T) {
	start := time.Unix(1000, 0)
	p := newPartition(10, 1, start)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for range 10 {
		require.True(t, p.take(1, at(0)), "a second's worth at once")
	}
	require.False(t, p.take(1, at(0)))
	require.False(t, p.take(1, at(99)))
	require.True(t, p.take(1, at(200)))
	require.EqualValues(t, 2, p.throttled)

	for range 10 {
		require.True(t, p.take(1, at(5000)), "it holds no more than a second's worth")
	}
	require.False(t, p.take(1, at(5000)))

	mean, peak := p.since(0, 10)
	require.InDelta(t, 21.0/10/10, mean, 1e-9)
	require.InDelta(t, 1.1, peak, 1e-9)
	mean, peak = p.since(1, 5)
	require.Zero(t, mean)
	require.Zero(t, peak)
}

func TestPartitionHoldsWhatWasNotUsed(t *testing.T) {
	start := time.Unix(1000, 0)
	p := newPartition(10, 300, start)
	for range 3000 {
		require.True(t, p.take(1, start))
	}
	require.False(t, p.take(1, start))
	require.True(t, newPartition(0, 1, start).take(1, start), "no bound")
}
