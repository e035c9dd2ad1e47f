package table

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// KeyFault is a key of a table, or of one of its indexes, that differs from the key it is to have.
type KeyFault struct {
	// Index is the index's name; empty for the table itself.
	Index string
	// Found and Want are the keys; Found is empty for an index that is missing.
	Found, Want string
}

// CompareKeys returns the keys of a table and its indexes that differ from wanted ones, the table's own first.
// A missing index has an empty Found. It ignores projections, and indexes that want does not have.
func CompareKeys(want *dynamodb.CreateTableInput, got *types.TableDescription) (faults []KeyFault) {
	compare := func(index string, found, wanted []types.KeySchemaElement) {
		f := KeyFault{index, KeyText(found, got.AttributeDefinitions), KeyText(wanted, want.AttributeDefinitions)}
		if f.Found != f.Want {
			faults = append(faults, f)
		}
	}
	compare("", got.KeySchema, want.KeySchema)
	for _, x := range want.GlobalSecondaryIndexes {
		var found []types.KeySchemaElement
		if i := FindIndex(got, aws.ToString(x.IndexName)); i >= 0 {
			found = got.GlobalSecondaryIndexes[i].KeySchema
		}
		compare(aws.ToString(x.IndexName), found, x.KeySchema)
	}
	return faults
}

// FindIndex returns the position of the named global secondary index in a table's description, -1 if it is
// missing.
func FindIndex(d *types.TableDescription, name string) int {
	return slices.IndexFunc(d.GlobalSecondaryIndexes, func(x types.GlobalSecondaryIndexDescription) bool {
		return aws.ToString(x.IndexName) == name
	})
}

// KeyText returns a key as text: its attributes with their types, the partition key first, as in "PK S, SK
// S".
func KeyText(key []types.KeySchemaElement, definitions []types.AttributeDefinition) string {
	var parts []string
	for _, kind := range []types.KeyType{types.KeyTypeHash, types.KeyTypeRange} {
		for _, k := range key {
			if k.KeyType != kind {
				continue
			}
			text := aws.ToString(k.AttributeName)
			for _, d := range definitions {
				if aws.ToString(d.AttributeName) == text {
					text += " " + string(d.AttributeType)
					break
				}
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}
