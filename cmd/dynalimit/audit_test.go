package main

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// TestAuditTranscript plays a session of somebody who looks for what was changed.
func TestAuditTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.now = s.now.Add(-72 * time.Hour)
	s.must("system", "set", "rpm=1000", "--as", "bob@example.com")
	s.now = s.now.Add(48 * time.Hour)
	s.must("entity", "create", "key-1", "--name", "First", "--metadata", `{"team":"search"}`, "--as", "ann@example.com")
	s.now = s.now.Add(23 * time.Hour)
	s.must("limits", "set", "key-1", "--resource", "gpt-4", "rpm=10", "--only", "--as", "bob@example.com")
	s.now = s.now.Add(time.Second)
	_, _, _ = s.run("entity", "update", "key-1", "--name", "", "--plan", "pro", "--as", "ann@example.com") // of a plan that comes later
	s.now = s.now.Add(time.Hour)
	s.must("plan", "set", "pro", "rpm=7", "--only", "--as", "ann@example.com")
	s.now = s.now.Add(time.Second)
	s.must("plan", "set", "pro", "tpm=70", "--only", "--as", "ann@example.com")
	s.now = s.now.Add(time.Second)
	s.must("resource", "set", "gpt-4", "rpm=8", "--only", "--as", "ann@example.com")
	s.golden("audit.txt", [][]string{
		{"audit"},
		{"audit", "--oldest"},
		{"audit", "--limit", "2"},
		{"audit", "--limit", "2", "--oldest", "--json"},
		{"audit", "--target", "key-1"},
		{"audit", "--target", "key-1", "--limit", "1", "--json"},
		{"audit", "--target", "key-9"},
		{"audit", "--target", "key-9", "--json"},
		{"audit", "--system"},
		{"audit", "--resource", "gpt-4"},
		{"audit", "--plan", "pro"},
		{"audit", "--by", "bob@example.com"},
		{"audit", "--from", "2h"},
		{"audit", "--from", "2026-01-20", "--to", "2026-01-22", "--oldest"},
		{"audit", "--from", "2026-01-22T15:30:45Z", "--to", "2026-01-22T15:30:45Z"},
		{"audit", "--from", "yesterday"},
		{"audit", "--from", "2026-01-22", "--to", "2026-01-21"},
		{"audit", "--target", "key-1", "--system"},
		{"audit", "--target", "key#1"},
		{"audit", "--limit=-1"},
	})
}

// TestNewestEventsComeFirst: the same events as from the oldest on, over days and within
// a millisecond, whatever the number wanted.
func TestNewestEventsComeFirst(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	end := s.now
	for day := range 4 {
		s.now = end.Add(time.Duration(day-4) * auditWindow)
		for n := range 3 {
			s.now = s.now.Add(time.Millisecond)
			s.must("resource", "set", fmt.Sprintf("r%d%d", day, n), "rpm=1")
		}
	}
	s.now = end
	read := func(args ...string) (targets []string) {
		var events []audit.Event
		require.NoError(t, json.Unmarshal([]byte(s.must(append(args, "--json")...)), &events))
		for _, e := range events {
			targets = append(targets, e.Target)
		}
		return targets
	}
	oldest, newest := read("audit", "--oldest", "--limit", "0"), read("audit", "--limit", "0")
	require.Len(t, oldest, 12)
	require.Len(t, newest, 12)
	for i := range oldest {
		assert.Equal(t, oldest[i], newest[11-i])
	}
	for n := 1; n < 12; n++ {
		_, stdout, stderr := s.run("audit", "--limit", fmt.Sprint(n), "--json")
		var events []audit.Event
		require.NoError(t, json.Unmarshal([]byte(stdout), &events))
		require.Len(t, events, n)
		assert.Equal(t, newest[n-1], events[n-1].Target)
		assert.Contains(t, stderr, "there are more")
	}
	code, _, stderr := s.run("audit", "--limit", "12")
	assert.Equal(t, exitOK, code)
	assert.Empty(t, stderr, "there are no more")
}

// olderLayout makes the table one that another tool wrote, before composite items.
func (s *shell) olderLayout(more ...schema.Item) { s.writtenBy("zae-0.6", more...) }

// writtenBy puts what another tool wrote into the table.
func (s *shell) writtenBy(tool string, more ...schema.Item) {
	s.t.Helper()
	data, err := os.ReadFile("../../internal/schema/testdata/" + tool + "-items.json")
	require.NoError(s.t, err)
	items, err := testworld.DecodeItems(data)
	require.NoError(s.t, err)
	for _, item := range append(items, more...) {
		_, err := s.db.Client().PutItem(s.t.Context(), &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: item})
		require.NoError(s.t, err)
	}
}

// Where entities of zae-limiter are missing in what is listed, it is said until they are.
func TestEntitiesThatAreNotListedAreNoted(t *testing.T) {
	s := newTable(t)
	s.writtenBy("zae-0.8.1")
	t.Chdir(withTestdata(t))
	file(t, "nothing.yaml", "version: 1\nname: nothing\n")
	lists := [][]string{{"entity", "list"}, {"manifest", "export"}, {"manifest", "plan", "nothing.yaml"}}
	for _, args := range lists {
		_, _, notes := s.run(args...)
		assert.Contains(t, notes, "zae-limiter made are not listed", args)
	}
	s.must("migrate", "--yes")
	for _, args := range lists {
		_, _, notes := s.run(args...)
		assert.Empty(t, notes, args)
	}
	assert.Contains(t, s.must("entity", "list"), "proj-1")
}

// TestMigrationTranscript plays the way from the older layout.
func TestMigrationTranscript(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.golden("migrate_none.txt", [][]string{
		{"migrate", "--dry-run"},
		{"migrate"},
		{"migrate", "now"},
		{"migrate", "--yes", "--table", "none"},
	})
	s.olderLayout()
	s.golden("migrate.txt", [][]string{
		{"migrate", "--dry-run"},
		{"migrate", "--dry-run", "--json"},
		{"migrate", "--yes"},
		{"migrate", "--yes", "--json"},
	})
	wrong := schema.Item{"PK": schema.String("RESOURCE#gpt-4"), "SK": schema.String("#LIMIT#\x1brpm"), "capacity": schema.String("many")}
	s = newTable(t)
	s.olderLayout(wrong)
	s.golden("migrate_wrong.txt", [][]string{
		{"migrate", "--yes"},
		{"migrate", "--yes", "--json"},
	})
}
