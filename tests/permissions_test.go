package tests

import (
	"encoding/json"
	"os"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// What changes limits and entities in a table without a namespace needs no action that
// docs/permissions.md does not give it.
func TestActionsOfChangesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/permissions.md")
	require.NoError(t, err)
	documented := map[string]bool{}
	for _, role := range []string{"serves calls", "sets limits"} {
		row := regexp.MustCompile(`(?m)^\| ` + role + `.*$`).Find(text)
		for _, action := range regexp.MustCompile("`(?:dynamodb:)?([A-Za-z]+Item)`").FindAllSubmatch(row, -1) {
			documented[string(action[1])] = true
		}
	}

	e := memEngine(t)
	r := e.repository(t, nil)
	var mu sync.Mutex
	used := map[string]bool{"Query": false}
	e.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		mu.Lock()
		defer mu.Unlock()
		var body struct{ TransactItems []map[string]json.RawMessage }
		if q.Operation != "TransactWriteItems" || json.Unmarshal(q.Body, &body) != nil {
			used[q.Operation] = q.Operation != "Query"
		}
		for _, part := range body.TransactItems {
			for kind := range part {
				used[map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}[kind]] = true
			}
		}
		return ddbmem.Fault{}
	})
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Entity: "u", Resource: "gpt-4"}, oneLimit))
	require.NoError(t, r.CreateEntity(t.Context(), admin.Entity{ID: "k", ParentID: "no-record"}))
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Entity: "k", Resource: "gpt-4"}, oneLimit))
	require.NoError(t, r.ResetBucket(t.Context(), "k", "gpt-4"))
	require.NoError(t, r.DeleteEntity(t.Context(), "k"))
	require.NoError(t, r.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, oneLimit))
	require.NoError(t, r.DeleteLimits(t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}))
	for action, item := range used {
		if item {
			assert.True(t, documented[action], action)
		}
	}
	assert.True(t, used["ConditionCheckItem"])
}
