package archive

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestMisuseIsSaid: every call without a context, of what was never made, or of nothing.
func TestMisuseIsSaid(t *testing.T) {
	a, err := New(&memory{files: map[string][]byte{}}, nil)
	require.NoError(t, err)
	var nobody context.Context
	process := func(a *Archive, ctx context.Context) error {
		_, err := a.Process(ctx, []aggregator.Record{{}})
		return err
	}
	for field, calls := range map[string][]func() error{
		"ctx":     {func() error { return process(a, nobody) }, func() error { return Folder(t.TempDir()).Put(nobody, "a", nil) }},
		"archive": {func() error { return process(nil, t.Context()) }, func() error { return process(new(Archive), t.Context()) }},
		"writer":  {func() error { _, err := New(Folder(""), nil); return err }},
		"folder":  {func() error { return Folder("").Put(t.Context(), "a", nil) }},
		"reader":  {func() error { return firstOf(Read(nil)) }, func() error { return firstOf(Read((*os.File)(nil))) }},
	} {
		for i, call := range calls {
			var invalid *dynalimit.ValidationError
			require.ErrorAs(t, call(), &invalid, "%s %d", field, i)
			assert.Equal(t, field, invalid.Field)
		}
	}
}

func firstOf(lines func(func(Line, error) bool)) (first error) {
	for _, err := range lines {
		return err
	}
	return nil
}

// TestWriterPanics: its records are failures that tell where it was, and those of other files
// are written.
func TestWriterPanics(t *testing.T) {
	m := &memory{files: map[string][]byte{}, fails: func(name string) error {
		if strings.HasPrefix(name, "audit") {
			panic("oh")
		}
		return nil
	}}
	a, err := New(m, nil)
	require.NoError(t, err)
	result, err := a.Process(t.Context(), []aggregator.Record{expired(2, schema.Key{PK: "AUDIT#$SYSTEM", SK: "#AUDIT#x"}, schema.Item{}), snapshot(1, "a")})
	require.NoError(t, err)
	assert.Equal(t, 1, result.Counted)
	require.Len(t, result.Failures, 1)
	assert.ErrorContains(t, result.Failures[0].Err, "oh")
	assert.ErrorContains(t, result.Failures[0].Err, "misuse_test.go")
	assert.False(t, result.Failures[0].Unreadable)
}

// TestTimeThatNoFileHolds: a record of a year that JSON cannot hold fails alone, and for good.
func TestTimeThatNoFileHolds(t *testing.T) {
	late := snapshot(1, "a")
	late.Time = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)
	early := expired(1, schema.Key{PK: "AUDIT#$SYSTEM", SK: "#AUDIT#x"}, schema.Item{"timestamp": schema.String("0000-01-01T00:30:00+01:00")})
	for _, bad := range []aggregator.Record{late, early} {
		bad.EventID = "bad"
		a, _ := newArchive(t, nil)
		result := process(t, a, bad, snapshot(2, "b"))
		assert.Equal(t, 1, result.Counted)
		require.Len(t, result.Failures, 1)
		assert.True(t, result.Failures[0].Unreadable)
		assert.ErrorContains(t, result.Failures[0].Err, "bad")
	}
}
