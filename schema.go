package dynalimit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// index is a global secondary index of the table. Indexes do not project attributes that an acquire
// changes. So an acquire writes no index, and a popular resource makes no hot partition.
type index struct {
	name, hash, sort string
	// projected are the attributes in addition to the keys.
	projected []string
}

var indexes = []index{
	{schema.IndexChildren, schema.GSI1PK, schema.GSI1SK, schema.EntityAttributes},
	{schema.IndexResource, schema.GSI2PK, schema.GSI2SK, nil},
	{schema.IndexEntityConfigs, schema.GSI3PK, schema.GSI3SK, nil},
}

// TableInput describes the table: for CreateTable, and for infrastructure code that makes it. Enable
// TTL on the attribute "ttl" too.
func (r *Repository) TableInput() *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:   aws.String(r.Table()),
		BillingMode: types.BillingModePayPerRequest,
		KeySchema:   keySchema(schema.PK, schema.SK),
		StreamSpecification: &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages,
		},
	}
	names := []string{schema.PK, schema.SK}
	for _, x := range indexes {
		names = append(names, x.hash, x.sort)
		projection := &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}
		if len(x.projected) > 0 {
			projection = &types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: slices.Clone(x.projected)}
		}
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(x.name), KeySchema: keySchema(x.hash, x.sort), Projection: projection,
		})
	}
	for _, name := range names {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS,
		})
	}
	return in
}

func keySchema(hash, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
	}
}

// tableFaults returns why a table is not usable, and the fix; "" if it is usable. Other projections are
// accepted: they cost more, but nothing depends on them.
func tableFaults(want *dynamodb.CreateTableInput, described *types.TableDescription) string {
	var faults, missing []string
	for _, f := range table.CompareKeys(want, described) {
		what := "it"
		if f.Index != "" {
			what = "index " + f.Index
		}
		if f.Found == "" {
			missing = append(missing, f.Index)
		} else {
			faults = append(faults, fmt.Sprintf("%s has the key (%s), want (%s)", what, f.Found, f.Want))
		}
	}
	switch {
	case len(faults) > 0:
		return "is not a dynalimit table: " + strings.Join(faults, "; ") + "; name another table"
	case len(missing) > 0: // as zae-limiter up to 0.7 made it
		return "lacks the indexes " + strings.Join(missing, ", ") + "; 'dynalimit doctor' prints the commands of AWS that add them, and Repository.TableInput describes them"
	}
	return ""
}

// tableRemarks returns the shortcomings of a usable table, for the operator.
func tableRemarks(table *types.TableDescription) []string {
	var remarks []string
	for _, x := range table.GlobalSecondaryIndexes {
		if aws.ToString(x.IndexName) == schema.IndexResource && x.Projection != nil && x.Projection.ProjectionType == types.ProjectionTypeAll {
			remarks = append(remarks, "index "+schema.IndexResource+" projects all attributes: every acquire is charged for it as well; KEYS_ONLY is enough")
		}
	}
	if s := table.StreamSpecification; s == nil || s.StreamViewType != types.StreamViewTypeNewAndOldImages {
		remarks = append(remarks, "it has no stream of new and old images: usage cannot be aggregated from it")
	}
	return remarks
}

// tableReady reports whether a table and our indexes of it can be used, as they can during an update.
func tableReady(table *types.TableDescription) bool {
	if table.TableStatus != types.TableStatusActive && table.TableStatus != types.TableStatusUpdating {
		return false
	}
	for _, x := range table.GlobalSecondaryIndexes {
		ours := slices.ContainsFunc(indexes, func(want index) bool { return want.name == aws.ToString(x.IndexName) })
		if ours && x.IndexStatus != types.IndexStatusActive && x.IndexStatus != types.IndexStatusUpdating {
			return false
		}
	}
	return true
}
