package schema

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
)

// TestParentIsReadAsItWasWritten: how a parent counts is read as it was written, whatever the record
// said before, also that an entity is to have no parent.
func TestParentIsReadAsItWasWritten(t *testing.T) {
	made := time.Unix(1_700_000_000, 0).UTC()
	records := []EntityRecord{{}, {Detached: true}, {ParentID: "team"}, {ParentID: "team", Detached: true}, {ParentID: "team", Cascade: true}}
	for _, before := range records {
		for _, want := range records {
			before.ID, want.ID, before.CreatedAt, want.CreatedAt = "key", "key", made, made
			item := want.Item(Keys{}, before.Item(Keys{}, nil))
			assert.Equal(t, want, DecodeEntity(item), "after %+v", before)
			assert.False(t, Unattached(item))
			assert.True(t, HasEntity(item), "a list needs no second read of %+v", want)
			item[attrParentID], item[attrCascade] = String("org"), &types.AttributeValueMemberBOOL{Value: true}
			charges := DecodeEntity(item)
			assert.True(t, charges.Counts() && charges.Cascade, "a writer that knows no more than cascade sets it over %+v", want)
		}
	}
}
