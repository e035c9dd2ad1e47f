package main

import "testing"

// TestReserveTranscript plays a session with reserves and checks of batch calls.
func TestReserveTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.golden("reserve.txt", [][]string{
		{"resource", "set", "gpt-4", "tpm=1000,reserve=30%", "rpm=10"},
		{"resource", "set", "gpt-4", "tpm=1000,reserve=60%"},
		{"resource", "add", "gpt-4", "tpm=2000"},
		{"resource", "show", "gpt-4"},
		{"check", "key-1", "gpt-4", "tpm=1700"},
		{"check", "key-1", "gpt-4", "tpm=1700", "--batch"},
		{"check", "key-1", "gpt-4", "tpm=1701", "rpm=8", "--batch"},
		{"check", "key-1", "gpt-4", "tpm=1701", "--batch", "--json"},
		{"manifest", "export"},
	})
}
