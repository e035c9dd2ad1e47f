package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheDay(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, false))
	got := out.String()
	for _, want := range []string{"premium → standard", "premium has used 100 %", "Sat 00:00    premium", "20260123", "20260124"} {
		assert.Contains(t, got, want)
	}
	assert.NotContains(t, got, "\x1b[")
	var coloured strings.Builder
	require.NoError(t, run(t.Context(), &coloured, true))
	assert.Contains(t, coloured.String(), "\x1b[35m")
}
