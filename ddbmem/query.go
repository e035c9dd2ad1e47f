package ddbmem

import (
	"slices"
	"strconv"

	"github.com/dynalimit/dynalimit/ddbmem/internal/expr"
	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// maxPage is how many bytes of items a page of a query or scan may look at.
const maxPage = 1 << 20

// source is the table or index that a query or scan reads.
type source struct {
	*store
	keySchema
	table *table
	index *index // nil: the table itself
}

// sourceOf returns the table or index that a query or scan reads. It fails if that does not exist, or for a
// consistent read of an index. The commit lock must be held for reading.
func (e *engine) sourceOf(st *statement) (source, error) {
	t, err := e.lookup(st.table)
	if err != nil {
		return source{}, err
	}
	if !st.hasIndex {
		return source{&t.store, t.keySchema, t, nil}, nil
	}
	ix := t.index(st.index)
	switch {
	case ix == nil:
		return source{}, validationError("The table does not have the specified index: %s", st.index)
	case st.consistent:
		return source{}, validationError("Consistent reads are not supported on global secondary indexes")
	}
	return source{&ix.store, ix.keySchema, t, ix}, nil
}

// checkSelect fails if Select and the projection contradict each other, or if the index lacks a requested
// attribute. It checks no rows.
func (s source) checkSelect(st *statement) error {
	switch {
	case st.projection != nil && st.selects != "" && st.selects != "SPECIFIC_ATTRIBUTES":
		return validationError("Cannot specify the ProjectionExpression when choosing to get %s", st.selects)
	case st.selects == "SPECIFIC_ATTRIBUTES" && st.projection == nil:
		return validationError("Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case st.selects == "ALL_PROJECTED_ATTRIBUTES" && s.index == nil:
		return validationError("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	case s.index == nil:
		return nil
	}
	return s.index.checkProjected(s.table, st)
}

// checkProjected fails if the request wants an attribute that ix does not project: by its projection expression,
// or by ALL_ATTRIBUTES.
func (ix *index) checkProjected(t *table, st *statement) error {
	if st.selects == "ALL_ATTRIBUTES" && ix.projection != "ALL" {
		return validationError("One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for global secondary index %s because its projection type is not ALL", ix.name)
	}
	if st.projection == nil {
		return nil
	}
	for _, name := range st.projection.TopLevelNames(&st.env) {
		if !ix.projectsAttribute(t, name) {
			return validationError("One or more parameter values were invalid: Global secondary index %s does not project [%s]", ix.name, name)
		}
	}
	return nil
}

// checkStart fails unless start, the ExclusiveStartKey, is nil or has exactly the key attributes of the table
// and the index, with their types.
func (s source) checkStart(start value.Map) error {
	if start == nil {
		return nil
	}
	names := slices.Clone(s.table.names())
	for _, name := range s.names() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	ok := len(start) == len(names)
	for _, name := range names {
		v, has := start[name]
		ok = ok && has && v.Type() == s.table.kinds[name]
	}
	if !ok {
		return validationError("The provided starting key is invalid")
	}
	return nil
}

// positionOf returns the position in its partition of an item with the key attributes m.
func (s source) positionOf(m value.Map) position {
	at := position{key: s.table.keyOf(m)}
	if s.sort != "" {
		at.sort = m[s.sort]
	}
	return at
}

// keyOf returns a new map with the key attributes of row r, of the table and of the index: a LastEvaluatedKey.
func (s source) keyOf(r *row) value.Map {
	key := value.Map{s.table.hash: r.key.hash}
	if s.table.sort != "" {
		key[s.table.sort] = r.key.sort
	}
	for _, name := range s.names() {
		key[name] = r.item[name]
	}
	return key
}

// checkLimit fails if the request has a Limit below 1.
func (st *statement) checkLimit() error {
	if st.hasLimit && st.limit < 1 {
		return validationError("1 validation error detected: Value '%d' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1", st.limit)
	}
	return nil
}

// query executes Query: it reads matching rows of one partition in the requested direction from the start key
// on, and appends and charges one page. It fails for an invalid condition or start key, and if the partition
// throttles. Queries of an index are never throttled.
func (c *call) query() error {
	st, err := c.readWholeStatement("Query")
	if err == nil {
		err = st.checkLimit()
	}
	if err != nil {
		return err
	}
	if st.keyCondition == nil {
		return validationError("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	c.db.mu.RLock()
	defer c.db.mu.RUnlock()
	s, err := c.db.sourceOf(st)
	if err != nil {
		return err
	}
	condition, err := s.checkQuery(st)
	if err != nil {
		return err
	}
	if s.index == nil && isThrottled(c, s.table, condition.Hash, false) {
		return errThrottled()
	}
	rows := s.matchingRows(condition)
	if st.start != nil {
		if !value.Equal(st.start[s.hash], condition.Hash) || !condition.Matches(st.start[s.sort]) {
			return validationError("The provided starting key is outside query boundaries based on provided conditions")
		}
		rows = rowsAfter(rows, s.positionOf(st.start), st.backward)
	}
	p := page{source: s, st: st, hash: condition.Hash}
	for i := range rows {
		if st.backward {
			i = len(rows) - 1 - i
		}
		if !p.addRow(rows[i]) {
			break
		}
	}
	return c.appendPage(&p)
}

// checkQuery returns the key condition of a query. It fails if a key value has the wrong type or is empty, or
// if the filter uses a key attribute. It also fails for an invalid Select, projection or start key.
func (s source) checkQuery(st *statement) (expr.KeyCondition, error) {
	k, err := st.keyCondition.Key(&st.env, s.hash, s.sort)
	if err != nil {
		return k, validationError("%v", err)
	}
	if k.Hash.Type() != s.table.kinds[s.hash] {
		return k, validationError("One or more parameter values were invalid: Condition parameter type does not match schema type")
	}
	for _, v := range []value.Value{k.Low, k.High} {
		if v != nil && v.Type() != s.table.kinds[s.sort] {
			return k, validationError("One or more parameter values were invalid: Condition parameter type does not match schema type")
		}
	}
	if isEmptyKey(k.Hash) {
		return k, validationError("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty %s value. Key: %s", textKind(k.Hash), s.hash)
	}
	if st.filter != nil {
		for _, name := range st.filter.TopLevelNames(&st.env) {
			if s.hasAttribute(name) {
				return k, validationError("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", name)
			}
		}
	}
	if err := s.checkSelect(st); err != nil {
		return k, err
	}
	return k, s.checkStart(st.start)
}

// matchingRows returns the rows of the partition that satisfy the key condition, in ascending order of the sort
// key. It is nil if the partition does not exist, and otherwise a part of the stored slice.
func (s source) matchingRows(k expr.KeyCondition) []*row {
	p := s.parts[k.Hash]
	if p == nil {
		return nil
	}
	if k.Op == "" {
		return p.rows
	}
	// The fitting rows are one stretch. It begins at the first row not below the bound.
	from := 0
	if k.Op != "<" && k.Op != "<=" {
		from, _ = slices.BinarySearchFunc(p.rows, k.Low, func(r *row, low value.Value) int {
			if compareKeys(r.sort, low) < 0 {
				return -1
			}
			return 1
		})
	}
	for k.Op == ">" && from < len(p.rows) && compareKeys(p.rows[from].sort, k.Low) == 0 {
		from++
	}
	n, _ := slices.BinarySearchFunc(p.rows[from:], k, func(r *row, k expr.KeyCondition) int {
		if k.Matches(r.sort) {
			return -1
		}
		return 1
	})
	return p.rows[from : from+n]
}

// rowsAfter returns the rows behind the position at, in the direction of reading: with backward those before
// it, still in ascending order. The row at the position is left out. It does not copy.
func rowsAfter(rows []*row, at position, backward bool) []*row {
	i, found := slices.BinarySearchFunc(rows, at, func(r *row, at position) int { return comparePositions(r.position, at) })
	if backward {
		return rows[:i]
	}
	if found {
		i++
	}
	return rows[i:]
}

// page collects one page of a query or scan.
type page struct {
	source
	st      *statement
	hash    value.Value // of a query
	items   []*row
	scanned int64
	bytes   int
	last    *row
	full    bool // more may follow
}

// addRow counts the next row as scanned, adds it to the page if the filter accepts it, and reports whether to
// continue. The page ends at the limit of scanned rows, or before a row, not the first, that would exceed 1 MB.
func (p *page) addRow(r *row) bool {
	if p.scanned > 0 && p.bytes+r.size > maxPage {
		p.full = true
		return false
	}
	p.scanned++
	p.bytes += r.size
	p.last = r
	if p.st.filter == nil || p.st.filter.Holds(&p.st.env, r.item) {
		p.items = append(p.items, r)
	}
	p.full = p.st.hasLimit && p.scanned >= p.st.limit
	return !p.full
}

// appendPage charges the read of all scanned rows to the table or index, and for a query to its partition. It
// appends Items (not for COUNT), Count, ScannedCount and, if the page is full, LastEvaluatedKey. Its error is
// always nil.
func (c *call) appendPage(p *page) error {
	use := c.use.tableEntry(p.table)
	cost := readHalves(p.bytes, p.st.consistent)
	if p.index != nil {
		use.indexEntry(p.index.name).read += cost
	} else if p.hash != nil {
		chargeRead(c, p.table, p.hash, cost)
	} else {
		use.read += cost
	}
	if p.st.selects != "COUNT" {
		c.out = append(wire.Field(c.out, "Items"), '[')
		for _, r := range p.items {
			c.out = value.AppendMap(wire.Comma(c.out), p.st.projected(r.item))
		}
		c.out = append(c.out, ']')
	}
	c.out = strconv.AppendInt(wire.Field(c.out, "Count"), int64(len(p.items)), 10)
	c.out = strconv.AppendInt(wire.Field(c.out, "ScannedCount"), p.scanned, 10)
	if p.full {
		c.out = value.AppendMap(wire.Field(c.out, "LastEvaluatedKey"), p.keyOf(p.last))
	}
	c.appendCapacity(false, false)
	return nil
}
