package ddbmem

import (
	"slices"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// Limits of tables.
const (
	maxIndexes      = 20
	maxNonKeys      = 100
	maxKeyNameBytes = 255
)

// definition is the table of a CreateTable.
type definition struct {
	name       string
	keys       keySchema
	kinds      map[string]string
	billing    string
	throughput throughput
	class      string
	protected  bool
	indexes    []*index
	view       string // of the stream, "" for none
}

// readDefinition reads the parameters of CreateTable. BillingMode defaults to PROVISIONED. It fails for
// unsupported parameters. Method check finds contradictory ones later.
func readDefinition(r *wire.Reader) (*definition, error) {
	d := &definition{kinds: map[string]string{}, billing: "PROVISIONED"}
	r.Object(func(member string) {
		switch member {
		case "TableName":
			d.name = readTableName(r)
		case "AttributeDefinitions":
			readKinds(r, d.kinds)
		case "KeySchema":
			d.keys = readKeySchema(r)
		case "BillingMode":
			d.billing = readEnum(r, "billingMode", "PROVISIONED", "PAY_PER_REQUEST")
		case "ProvisionedThroughput":
			d.throughput = readThroughput(r)
		case "GlobalSecondaryIndexes":
			r.Array(func() { d.indexes = append(d.indexes, readIndex(r)) })
		case "StreamSpecification":
			d.view = readStreamSpecification(r)
		case "TableClass":
			d.class = readEnum(r, "tableClass", "STANDARD", "STANDARD_INFREQUENT_ACCESS")
		case "DeletionProtectionEnabled":
			d.protected = r.Bool()
		default:
			r.Fail(unsupportedError(member + " in CreateTable"))
		}
	})
	return d, r.Err()
}

// readKinds reads AttributeDefinitions into kinds: the type B, N or S by attribute name. r gets an error if
// one attribute has two types.
func readKinds(r *wire.Reader, kinds map[string]string) {
	r.Array(func() {
		var name, kind string
		r.Object(func(member string) {
			switch member {
			case "AttributeName":
				name = r.String()
			case "AttributeType":
				kind = readEnum(r, "attributeDefinitions.member.attributeType", "B", "N", "S")
			default:
				r.Fail(unsupportedError(member + " in AttributeDefinitions"))
			}
		})
		if have, ok := kinds[name]; ok && have != kind {
			r.Fail(validationError("Cannot redefine an existing attribute: %s", name))
		}
		kinds[name] = kind
	})
}

// readKeySchema reads a KeySchema: a HASH attribute, and optionally a RANGE attribute with another name. For
// any other schema r gets an error.
func readKeySchema(r *wire.Reader) keySchema {
	var k keySchema
	n := 0
	r.Array(func() {
		n++
		var name, kind string
		r.Object(func(member string) {
			switch member {
			case "AttributeName":
				name = r.String()
			case "KeyType":
				kind = readEnum(r, "keySchema.member.keyType", "HASH", "RANGE")
			default:
				r.Fail(unsupportedError(member + " in KeySchema"))
			}
		})
		switch {
		case n == 1 && kind != "HASH":
			r.Fail(validationError("Invalid KeySchema: The first KeySchemaElement is not a HASH key type"))
		case n == 2 && kind != "RANGE":
			r.Fail(validationError("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type"))
		case n > 2:
			r.Fail(validationError("1 validation error detected: Value at 'keySchema' failed to satisfy constraint: Member must have length less than or equal to 2"))
		case n == 1:
			k.hash = name
		case name == k.hash:
			r.Fail(validationError("Both the Hash Key and the Range Key element in the KeySchema have the same name"))
		default:
			k.sort = name
		}
	})
	return k
}

// readThroughput reads the read and write units of a ProvisionedThroughput; a missing one is 0. For another
// member r gets an error.
func readThroughput(r *wire.Reader) throughput {
	var t throughput
	r.Object(func(member string) {
		switch member {
		case "ReadCapacityUnits":
			t.read = r.Int()
		case "WriteCapacityUnits":
			t.write = r.Int()
		default:
			r.Fail(unsupportedError(member + " in ProvisionedThroughput"))
		}
	})
	return t
}

// readIndex reads the definition of a global secondary index, of CreateTable or UpdateTable, and returns it
// without entries. For unsupported members r gets an error.
func readIndex(r *wire.Reader) *index {
	ix := &index{store: newStore()}
	r.Object(func(member string) {
		switch member {
		case "IndexName":
			ix.name = r.String()
		case "KeySchema":
			ix.keySchema = readKeySchema(r)
		case "Projection":
			r.Object(func(m string) {
				switch m {
				case "ProjectionType":
					ix.projection = readEnum(r, "projection.projectionType", "ALL", "INCLUDE", "KEYS_ONLY")
				case "NonKeyAttributes":
					r.Array(func() { ix.include = append(ix.include, r.String()) })
				default:
					r.Fail(unsupportedError(m + " in Projection"))
				}
			})
		case "ProvisionedThroughput":
			ix.throughput = readThroughput(r)
		default:
			r.Fail(unsupportedError(member + " in GlobalSecondaryIndexes"))
		}
	})
	return ix
}

// readStreamSpecification returns the stream's view type, and "" if the stream is disabled. It fails r if the
// stream is enabled without a view type or disabled with one.
func readStreamSpecification(r *wire.Reader) string {
	var enabled bool
	var view string
	r.Object(func(member string) {
		switch member {
		case "StreamEnabled":
			enabled = r.Bool()
		case "StreamViewType":
			view = readEnum(r, "streamSpecification.streamViewType", "KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES")
		default:
			r.Fail(unsupportedError(member + " in StreamSpecification"))
		}
	})
	switch {
	case r.Err() != nil:
	case enabled && view == "":
		r.Fail(validationError("One or more parameter values were invalid: StreamViewType is required when stream is enabled"))
	case !enabled && view != "":
		r.Fail(validationError("One or more parameter values were invalid: StreamViewType should not be specified when stream is disabled"))
	}
	return view
}

// check fails if the name or the key is missing, or if billing, attribute definitions or indexes are
// inconsistent or beyond DynamoDB's limits.
func (d *definition) check() error {
	if err := requireMember(d.name != "", "tableName"); err != nil {
		return err
	}
	if err := requireMember(d.keys.hash != "", "keySchema"); err != nil {
		return err
	}
	if err := d.checkBilling(); err != nil {
		return err
	}
	if len(d.indexes) > maxIndexes {
		return validationError("One or more parameter values were invalid: GlobalSecondaryIndex count exceeds the per-table limit of 20")
	}
	return checkSchema(d.keys, d.kinds, d.indexes)
}

// checkSchema fails if a key attribute has no definition, a definition belongs to no key, or an index is
// invalid or has another's name.
func checkSchema(keys keySchema, kinds map[string]string, indexes []*index) error {
	used := map[string]bool{}
	for _, k := range append([]keySchema{keys}, mapSlice(indexes, func(ix *index) keySchema { return ix.keySchema })...) {
		if err := k.checkDefined(kinds); err != nil {
			return err
		}
		for _, name := range k.names() {
			used[name] = true
		}
	}
	if len(used) != len(kinds) {
		return validationError("One or more parameter values were invalid: Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
	}
	var names []string
	for _, ix := range indexes {
		if err := checkIndex(ix); err != nil {
			return err
		}
		if slices.Contains(names, ix.name) {
			return validationError("One or more parameter values were invalid: Duplicate index name: %s", ix.name)
		}
		names = append(names, ix.name)
	}
	return nil
}

// checkDefined fails unless k has a hash key, kinds defines the key's attributes, and their names have at most
// 255 bytes.
func (k keySchema) checkDefined(kinds map[string]string) error {
	if err := requireMember(k.hash != "", "keySchema"); err != nil {
		return err
	}
	for _, name := range k.names() {
		if kinds[name] == "" {
			return validationError("One or more parameter values were invalid: Some index key attributes are not defined in AttributeDefinitions. Keys: [%s], AttributeDefinitions: %v", name, sortedKeys(kinds))
		}
		if len(name) > maxKeyNameBytes {
			return validationError("1 validation error detected: Value '%s' at 'keySchema.member.attributeName' failed to satisfy constraint: Member must have length less than or equal to 255", name)
		}
	}
	return nil
}

// checkIndex fails if the index's name is invalid, or if its projection type is missing or contradicts
// NonKeyAttributes. More than 100 NonKeyAttributes fail too.
func checkIndex(ix *index) error {
	if err := checkName("indexName", ix.name); err != nil {
		return err
	}
	switch {
	case ix.projection == "":
		return validationError("One or more parameter values were invalid: Unknown ProjectionType: null")
	case ix.projection != "INCLUDE" && len(ix.include) > 0:
		return validationError("One or more parameter values were invalid: ProjectionType is %s, but NonKeyAttributes is specified", ix.projection)
	case ix.projection == "INCLUDE" && len(ix.include) == 0:
		return validationError("One or more parameter values were invalid: ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
	case len(ix.include) > maxNonKeys:
		return validationError("One or more parameter values were invalid: NonKeyAttributes exceeds the limit of 100")
	}
	return nil
}

// checkBilling fails if read or write units are given for PAY_PER_REQUEST, or are missing for PROVISIONED.
func (d *definition) checkBilling() error {
	switch {
	case d.billing == "PAY_PER_REQUEST" && d.throughput != throughput{}:
		return validationError("One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
	case d.billing == "PROVISIONED" && (d.throughput.read < 1 || d.throughput.write < 1):
		return validationError("One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	}
	return nil
}
