package ddbmem

import (
	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// alteration is the change of an UpdateTable; nil is unchanged.
type alteration struct {
	name         string
	kinds        map[string]string
	billing      string
	throughput   *throughput
	class        string
	protected    *bool
	create       *index
	drop         string
	indexUpdates map[string]throughput
	stream       *string // the view, "" to disable
	actions      int     // index updates asked for
}

// updateTable executes UpdateTable: it makes the alteration at once under the commit lock and appends the
// table's description. It fails, and changes nothing, if the alteration does not fit the table.
func (c *call) updateTable() error {
	a, err := readAlteration(c.in)
	if err != nil {
		return err
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	t := c.db.tables[a.name]
	if t == nil {
		return noTableError(a.name)
	}
	if err := a.check(t); err != nil {
		return err
	}
	a.apply(c, t)
	c.out = t.appendDescription(wire.Field(c.out, "TableDescription"), "ACTIVE")
	return nil
}

// readAlteration reads the parameters of UpdateTable. It fails without a table name or for unsupported
// parameters. Method check finds those that do not fit the table.
func readAlteration(r *wire.Reader) (*alteration, error) {
	a := &alteration{kinds: map[string]string{}, indexUpdates: map[string]throughput{}}
	r.Object(func(member string) {
		switch member {
		case "TableName":
			a.name = readTableName(r)
		case "AttributeDefinitions":
			readKinds(r, a.kinds)
		case "BillingMode":
			a.billing = readEnum(r, "billingMode", "PROVISIONED", "PAY_PER_REQUEST")
		case "ProvisionedThroughput":
			t := readThroughput(r)
			a.throughput = &t
		case "TableClass":
			a.class = readEnum(r, "tableClass", "STANDARD", "STANDARD_INFREQUENT_ACCESS")
		case "DeletionProtectionEnabled":
			on := r.Bool()
			a.protected = &on
		case "StreamSpecification":
			view := readStreamSpecification(r)
			a.stream = &view
		case "GlobalSecondaryIndexUpdates":
			r.Array(func() { r.Object(func(action string) { a.readIndexUpdate(r, action) }) })
		default:
			r.Fail(unsupportedError(member + " in UpdateTable"))
		}
	})
	if err := r.Err(); err != nil {
		return nil, err
	}
	return a, requireMember(a.name != "", "tableName")
}

// readIndexUpdate reads one element of GlobalSecondaryIndexUpdates into a. action is Create, Delete or
// Update; r gets an error for any other.
func (a *alteration) readIndexUpdate(r *wire.Reader, action string) {
	a.actions++
	switch action {
	case "Create":
		a.create = readIndex(r)
	case "Delete":
		a.drop = readIndex(r).name
	case "Update":
		ix := readIndex(r)
		a.indexUpdates[ix.name] = ix.throughput
	default:
		r.Fail(unsupportedError(action + " in GlobalSecondaryIndexUpdates"))
	}
}

// check fails if a creates or drops more than one index, an index that exists or is missing, or a 21st one. It
// also fails if a sets the stream to its present state, or if the new schema is inconsistent. It changes
// nothing.
func (a *alteration) check(t *table) error {
	if a.create != nil && a.drop != "" || a.actions > 1+len(a.indexUpdates) {
		return newError("LimitExceededException", "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table")
	}
	if err := a.checkStream(t); err != nil {
		return err
	}
	if err := a.checkIndexNames(t); err != nil {
		return err
	}
	if a.create == nil {
		return nil
	}
	if t.index(a.create.name) != nil {
		return validationError("Attempting to create an index which already exists: %s", a.create.name)
	}
	if len(t.indexes) >= maxIndexes {
		return newError("LimitExceededException", "GlobalSecondaryIndex count exceeds the per-table limit of 20")
	}
	return checkSchema(t.keySchema, a.mergedKinds(t), append(t.indexes[:len(t.indexes):len(t.indexes)], a.create))
}

// checkStream fails if a enables an enabled stream or disables one that t does not have enabled.
func (a *alteration) checkStream(t *table) error {
	if a.stream == nil {
		return nil
	}
	enabled := t.stream != nil && t.stream.disabled.IsZero()
	switch {
	case *a.stream != "" && enabled:
		return validationError("Table already has an enabled stream: TableName: %s", t.name)
	case *a.stream == "" && !enabled:
		return validationError("Table has no stream to disable: TableName: %s", t.name)
	}
	return nil
}

// checkIndexNames fails unless t has the indexes that a drops or changes.
func (a *alteration) checkIndexNames(t *table) error {
	names := []string{a.drop}
	for name := range a.indexUpdates {
		names = append(names, name)
	}
	for _, name := range names {
		if name != "" && t.index(name) == nil {
			return newError("ResourceNotFoundException", "Requested resource not found: Index: %s not found", name)
		}
	}
	return nil
}

// mergedKinds returns a new map with the attribute definitions of t and of a; for a name in both, a's type
// wins.
func (a *alteration) mergedKinds(t *table) map[string]string {
	kinds := map[string]string{}
	for _, from := range []map[string]string{t.kinds, a.kinds} {
		for name, kind := range from {
			kinds[name] = kind
		}
	}
	return kinds
}

// apply makes the checked alteration on t: index, billing, throughput, class, protection and stream. It fills a
// new index at once, and clears the throughput for PAY_PER_REQUEST. The commit lock must be held.
func (a *alteration) apply(c *call, t *table) {
	if a.create != nil {
		t.kinds = a.mergedKinds(t)
		t.indexes = append(t.indexes, a.create)
		t.fillIndex(a.create)
	}
	if a.drop != "" {
		t.dropIndex(a.drop)
	}
	for name, to := range a.indexUpdates {
		t.index(name).throughput = to
	}
	if a.billing != "" {
		t.billing = a.billing
		if t.billing == "PAY_PER_REQUEST" {
			t.throughput = throughput{}
		}
	}
	if a.throughput != nil {
		t.throughput = *a.throughput
	}
	if a.class != "" {
		t.class = a.class
	}
	if a.protected != nil {
		t.protected = *a.protected
	}
	if a.stream == nil {
		return
	}
	if *a.stream == "" {
		t.stream.disable(c.at)
		return
	}
	c.db.openStream(t, *a.stream)
}

// fillIndex adds the existing items to a new index; the commit lock must be held. It leaves out an item with an
// index key of the wrong type or size, as in DynamoDB's backfill.
func (t *table) fillIndex(ix *index) {
	for _, p := range t.parts {
		for _, r := range p.rows {
			if t.checkIndexKeys(ix, r.item) == nil {
				ix.updateEntry(t, nil, r)
			}
		}
	}
}

// dropIndex removes the index with the name, and the attribute definitions that no other key uses. An unknown
// name removes no index.
func (t *table) dropIndex(name string) {
	used := map[string]bool{}
	kept := t.indexes[:0:0]
	for _, n := range t.names() {
		used[n] = true
	}
	for _, ix := range t.indexes {
		if ix.name == name {
			continue
		}
		kept = append(kept, ix)
		for _, n := range ix.names() {
			used[n] = true
		}
	}
	t.indexes = kept
	kinds := map[string]string{}
	for n, kind := range t.kinds {
		if used[n] {
			kinds[n] = kind
		}
	}
	t.kinds = kinds
}
