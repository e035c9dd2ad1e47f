package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

func TestDoctorTranscript(t *testing.T) {
	s := newTable(t)
	require.NoError(t, s.repository().SetSystemLimits(t.Context(), []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}, nil))
	s.golden("doctor.txt", [][]string{
		{"doctor"},
		{"doctor", "--role", "admin", "--budget"},
		{"doctor", "--table", "limts"},
		{"doctor", "--table", "limts", "--json"},
		{"doctor", "--namespace", "eu"},
		{"doctor", "--role", "king"},
		{"doctor", "--timeout", "0s"},
	})
}
