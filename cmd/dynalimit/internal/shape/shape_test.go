package shape

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type base struct {
	ID string `json:"id"`
}

type own struct{ N int }

type tree struct {
	Below []tree `json:"below"`
}

// TestOf: each kind of field, as encoding/json writes it.
func TestOf(t *testing.T) {
	type all struct {
		base
		At      time.Time        `json:"at"`
		Maybe   *base            `json:"maybe"`
		Left    *base            `json:"left,omitempty"`
		Amounts map[string]int64 `json:"amounts,omitzero"`
		Share   float64          `json:"share"`
		Yes     bool             `json:"yes"`
		Any     json.RawMessage  `json:"any,omitempty"`
		Own     []own            `json:"own"`
		Named   string
		Not     func() `json:"-"`
		hidden  int
	}
	text, err := json.Marshal(Of([]all{{hidden: 1}}, map[reflect.Type]any{reflect.TypeFor[own](): ""}))
	require.NoError(t, err)
	object := `{"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": false}`
	assert.JSONEq(t, `{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "array", "items": {
		"type": "object", "additionalProperties": false,
		"required": ["id", "at", "maybe", "share", "yes", "own", "Named"],
		"properties": {
			"id": {"type": "string"}, "at": {"type": "string", "format": "date-time"},
			"maybe": {"anyOf": [`+object+`, {"type": "null"}]}, "left": `+object+`,
			"amounts": {"type": "object", "additionalProperties": {"type": "integer"}},
			"share": {"type": "number"}, "yes": {"type": "boolean"}, "any": {},
			"own": {"type": "array", "items": {"type": "string"}}, "Named": {"type": "string"}
		}}}`, string(text))
}

// TestOfATypeThatHoldsItself: it is named where it stands, and by itself.
func TestOfATypeThatHoldsItself(t *testing.T) {
	text, err := json.Marshal(Of([]tree{}, nil))
	require.NoError(t, err)
	assert.JSONEq(t, `{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "array", "items": {"$ref": "#/$defs/tree"}, "$defs": {
		"tree": {"type": "object", "additionalProperties": false, "required": ["below"], "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
	}}`, string(text))
}
