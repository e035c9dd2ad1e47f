package main

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// TestWatchShowsAnewUntilItsEnd: on a terminal each time in the place of what was there.
func TestWatchShowsAnewUntilItsEnd(t *testing.T) {
	for width, before := range map[int]string{80: "\x1b[H\x1b[2J", 0: ""} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
			defer cancel()
			var text bytes.Buffer
			shown := 0
			require.NoError(t, watch{10 * time.Second}.showRepeatedly(ctx, &term.Output{Writer: &text, Width: width}, func(out *term.Output) error {
				shown++
				fmt.Fprintf(out, "%d of %d columns\n", shown, out.Width)
				return ctx.Err()
			}))
			want := ""
			for i := range 3 {
				want += fmt.Sprintf("%s%d of %d columns\n\n", before, i+1, width)
			}
			assert.Equal(t, want, text.String())
		})
	}
	assert.ErrorIs(t, watch{time.Second}.showRepeatedly(t.Context(), &term.Output{}, func(*term.Output) error { return assert.AnError }), assert.AnError)
}
