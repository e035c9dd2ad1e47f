package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTour plays the tour in virtual time.
func TestTour(t *testing.T) {
	for _, colour := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			began := time.Now()
			require.NoError(t, run(t.Context(), &screen{&out, colour}))
			assert.Less(t, time.Since(began), 5*time.Second)
			text := out.String()
			t.Log(text)
			assert.Equal(t, colour, strings.Contains(text, "\x1b["))
			if colour {
				return
			}
			for _, line := range []string{
				"✓ admitted on premium (us.anthropic.claude-sonnet-4-6); in flight:",
				"one record for both of them.",
				"✗ context canceled; the prompt and 12 words were used",
				"the same call fits in",
				"✓ admitted on standard (us.anthropic.claude-haiku-4-5-20251001-v1:0)",
			} {
				assert.Contains(t, text, line)
			}
			assert.Equal(t, 3, strings.Count(text, "✓"))
		})
	}
}

func TestTourStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		var out strings.Builder
		require.ErrorIs(t, run(ctx, &screen{&out, false}), context.DeadlineExceeded)
		assert.NotContains(t, out.String(), "2  The client")
	})
}

func TestColourIsForTerminals(t *testing.T) {
	none := func(string) string { return "" }
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	assert.False(t, newScreen(file, none).colour, "a file")
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	require.NoError(t, err)
	defer device.Close()
	assert.True(t, newScreen(device, none).colour)
	assert.False(t, newScreen(device, func(name string) string { return map[string]string{"NO_COLOR": "1"}[name] }).colour)
}
