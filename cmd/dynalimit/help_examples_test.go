package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// helpExamples are the lines of help.txt that run the program, without what a shell does
// with them.
func helpExamples() (lines []string) {
	text := strings.ReplaceAll(helpText, "\\\n", " ")
	for _, line := range strings.Split(text, "\n") {
		if line, indented := strings.CutPrefix(line, "  "); indented {
			for _, part := range strings.Split(line, " && ") {
				if part, ours := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(part), "source <("), "dynalimit "); ours {
					for _, end := range []string{" > ", " < ", " | ", " #", ")"} {
						part, _, _ = strings.Cut(part, end)
					}
					if !strings.Contains(part, "'") {
						part = strings.ReplaceAll(part, `"`, "'") // as unquoted reads
					}
					lines = append(lines, strings.TrimSpace(part))
				}
			}
		}
	}
	return lines
}

// TestExamplesInHelpAreUnderstood: the parser takes each.
func TestExamplesInHelpAreUnderstood(t *testing.T) {
	t.Chdir(t.TempDir())
	require.Greater(t, len(helpExamples()), len(leaves(t)))
	for _, line := range helpExamples() {
		assert.NoError(t, parse(unquoted(line)), line)
	}
}

// TestExamplesOfUsageSucceedOnAnyDay: what hours are kept for does not reach back to a month
// that an example named once.
func TestExamplesOfUsageSucceedOnAnyDay(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, day := range []time.Time{time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), time.Date(2027, 3, 1, 0, 30, 0, 0, time.UTC)} {
		s := newShell(t)
		s.now = day // also the table's first: no hour before it is read
		require.NoError(t, s.repository().CreateTable(t.Context()))
		for _, line := range helpExamples() {
			if reads := strings.HasPrefix(line, "usage ") && changing[leafOf(line)] == "" && !strings.Contains(line, "--watch"); reads {
				code, _, stderr := s.run(unquoted(line)...)
				assert.Equal(t, exitOK, code, "%s\n%s", line, stderr)
			}
		}
	}
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	assert.NotEmpty(t, files, "exports")
}
