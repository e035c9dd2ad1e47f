package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

func TestDoctorTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	require.NoError(t, admin.New(s.repository()).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
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
