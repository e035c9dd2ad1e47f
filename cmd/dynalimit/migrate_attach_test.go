package main

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestParentsOfOlderRecordsAreAttached: those that no record speaks of are listed first, and each
// chain is walked before. What was detached on purpose stays so.
func TestParentsOfOlderRecordsAreAttached(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	s.must("system", "set", "rpm=100")
	s.must("entity", "create", "team")
	s.must("limits", "set", "team", "--only", "rpm=1")
	s.must("entity", "create", "apart", "--parent", "team", "--detached")
	put := func(item schema.Item) {
		_, err := s.db.Client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: item})
		require.NoError(t, err)
	}
	records := []schema.EntityRecord{{ID: "key-1", ParentID: "team"}, {ID: "key-2", ParentID: "team"}, {ID: "loop-a", ParentID: "loop-b"}, {ID: "loop-b", ParentID: "loop-a"}}
	for i := range 8 {
		records = append(records, schema.EntityRecord{ID: string(rune('a' + i)), ParentID: string(rune('a' + i + 1)), Cascade: i > 0})
	}
	for _, r := range records {
		r.CreatedAt, r.Version = s.now, 1
		item := r.Item(schema.NewKeys(""), nil)
		delete(item, "parent_counts") // as an earlier version writes it
		put(item)
	}
	assert.Contains(t, s.must("check", "key-1", "gpt-4", "rpm=2"), "would be admitted")
	s.golden("migrate_attach.txt", [][]string{
		{"migrate", "--attach", "--dry-run"},
		{"migrate", "--attach", "--dry-run", "--json"},
		{"migrate", "--attach", "--yes"},
		{"migrate", "--attach", "--yes", "--json"},
	})
	_, text, _ := s.run("check", "key-1", "gpt-4", "rpm=2")
	assert.Contains(t, text, "would be denied")
	assert.Contains(t, s.must("entity", "show", "apart"), "not the parent")

	for _, r := range records[2:5] { // loop-a, loop-b and a count, by another tool
		r.CreatedAt, r.Version = s.now, 2
		put(r.Item(schema.NewKeys(""), nil))
	}
	found := s.must("doctor")
	assert.Contains(t, found, "loop-a is its own ancestor, and each call of it fails")
	assert.Contains(t, found, "a has 9 levels with its parents, and calls charge the nearest 8 or are refused")
}
