package main

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSchemaTranscript(t *testing.T) {
	t.Parallel()
	newShell(t).golden("schema.txt", [][]string{
		{"schema", "audit"},
		{"schema", "audit", "--json"},
		{"schema", "limits"},
		{"schema"},
	})
}

// TestEveryCommandHasASchema that is one, and no other name has.
func TestEveryCommandHasASchema(t *testing.T) {
	for _, name := range leaves(t) {
		text, err := schemaOf(name)
		if untested[name] != "" {
			assert.Error(t, err, name)
			continue
		}
		require.NoError(t, err, name)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
		require.NoError(t, err, name)
		c := jsonschema.NewCompiler()
		require.NoError(t, c.AddResource("schema.json", value))
		_, err = c.Compile("schema.json")
		assert.NoError(t, err, name)
	}
	for name := range results {
		assert.Contains(t, leaves(t), name)
	}
}
