package ddbmem

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// sortedKeys returns the keys of a map in order.
func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// appendTime appends a time to b as the protocol has it: Unix seconds with three decimals.
func appendTime(b []byte, t time.Time) []byte {
	return strconv.AppendFloat(b, float64(t.UnixMilli())/1000, 'f', 3, 64)
}

// appendDescription appends a TableDescription to b with the given TableStatus, and with exact counts and
// sizes. It adds up every row for them. The commit lock must be held for reading.
func (t *table) appendDescription(b []byte, status string) []byte {
	b = append(b, '{')
	b = wire.AppendString(wire.Field(b, "TableName"), t.name)
	b = wire.AppendString(wire.Field(b, "TableArn"), t.arn())
	b = wire.AppendString(wire.Field(b, "TableId"), uuidText(t.id))
	b = wire.AppendString(wire.Field(b, "TableStatus"), status)
	b = appendTime(wire.Field(b, "CreationDateTime"), t.created)
	b = strconv.AppendInt(wire.Field(b, "ItemCount"), int64(t.rows), 10)
	b = strconv.AppendInt(wire.Field(b, "TableSizeBytes"), t.sizeInBytes(), 10)
	b = strconv.AppendBool(wire.Field(b, "DeletionProtectionEnabled"), t.protected)
	b = t.keySchema.append(b)
	b = append(wire.Field(b, "AttributeDefinitions"), '[')
	for _, name := range sortedKeys(t.kinds) {
		b = wire.AppendString(wire.Field(append(wire.Comma(b), '{'), "AttributeName"), name)
		b = append(wire.AppendString(wire.Field(b, "AttributeType"), t.kinds[name]), '}')
	}
	b = append(b, ']')
	b = t.throughput.append(b)
	if t.billing == "PAY_PER_REQUEST" {
		b = wire.AppendString(wire.Field(append(wire.Field(b, "BillingModeSummary"), '{'), "BillingMode"), t.billing)
		b = append(b, '}')
	}
	if t.class != "" {
		b = wire.AppendString(wire.Field(append(wire.Field(b, "TableClassSummary"), '{'), "TableClass"), t.class)
		b = append(b, '}')
	}
	if len(t.indexes) > 0 {
		b = append(wire.Field(b, "GlobalSecondaryIndexes"), '[')
		for _, ix := range t.indexes {
			b = ix.append(wire.Comma(b), t)
		}
		b = append(b, ']')
	}
	if t.stream != nil {
		b = t.stream.appendToTable(b)
	}
	return append(b, '}')
}

// append appends the JSON member KeySchema to b: the hash attribute and then the sort attribute, if there is
// one.
func (k keySchema) append(b []byte) []byte {
	b = append(wire.Field(b, "KeySchema"), '[')
	for i, name := range k.names() {
		b = wire.AppendString(wire.Field(append(wire.Comma(b), '{'), "AttributeName"), name)
		b = append(wire.AppendString(wire.Field(b, "KeyType"), []string{"HASH", "RANGE"}[i]), '}')
	}
	return append(b, ']')
}

// append appends the JSON member ProvisionedThroughput to b, in units a second.
func (t throughput) append(b []byte) []byte {
	b = append(wire.Field(b, "ProvisionedThroughput"), '{')
	b = strconv.AppendInt(wire.Field(b, "ReadCapacityUnits"), t.read, 10)
	b = strconv.AppendInt(wire.Field(b, "WriteCapacityUnits"), t.write, 10)
	b = strconv.AppendInt(wire.Field(b, "NumberOfDecreasesToday"), 0, 10)
	return append(b, '}')
}

// append appends the description of ix, an index of t, to b as DescribeTable shows it, always with status
// ACTIVE.
func (ix *index) append(b []byte, t *table) []byte {
	b = append(b, '{')
	b = wire.AppendString(wire.Field(b, "IndexName"), ix.name)
	b = wire.AppendString(wire.Field(b, "IndexArn"), t.arn()+"/index/"+ix.name)
	b = wire.AppendString(wire.Field(b, "IndexStatus"), "ACTIVE")
	b = strconv.AppendInt(wire.Field(b, "ItemCount"), int64(ix.rows), 10)
	b = strconv.AppendInt(wire.Field(b, "IndexSizeBytes"), ix.sizeInBytes(), 10)
	b = ix.keySchema.append(b)
	b = wire.AppendString(wire.Field(append(wire.Field(b, "Projection"), '{'), "ProjectionType"), ix.projection)
	if len(ix.include) > 0 {
		b = append(wire.Field(b, "NonKeyAttributes"), '[')
		for _, name := range ix.include {
			b = wire.AppendString(wire.Comma(b), name)
		}
		b = append(b, ']')
	}
	return append(ix.throughput.append(append(b, '}')), '}')
}
