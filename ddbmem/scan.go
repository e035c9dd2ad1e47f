package ddbmem

import "slices"

// scan executes Scan: it reads the partitions of the segment from the start key on, and appends and charges one
// page. It fails for invalid parameters, and is never throttled. It takes the commit lock for writing, since it
// may have to sort the partitions.
func (c *call) scan() error {
	st, err := c.readWholeStatement("Scan")
	if err == nil {
		err = st.checkLimit()
	}
	if err == nil {
		err = st.checkSegments()
	}
	if err != nil {
		return err
	}
	c.db.mu.Lock() // ordered may have to sort
	defer c.db.mu.Unlock()
	s, err := c.db.sourceOf(st)
	if err == nil {
		err = s.checkSelect(st)
	}
	if err == nil {
		err = s.checkStart(st.start)
	}
	if err != nil {
		return err
	}
	p := page{source: s, st: st}
	for _, part := range s.segmentPartitions(st) {
		rows := part.rows
		if st.start != nil && part.hash == st.start[s.hash] {
			rows = rowsAfter(rows, s.positionOf(st.start), false)
		}
		for _, r := range rows {
			if !p.addRow(r) {
				return c.appendPage(&p)
			}
		}
	}
	return c.appendPage(&p)
}

// checkSegments fails unless Segment and TotalSegments are both given or both missing, with the segment below
// the total.
func (st *statement) checkSegments() error {
	switch {
	case st.hasSegment && !st.hasTotal:
		return validationError("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case st.hasTotal && !st.hasSegment:
		return validationError("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case st.hasTotal && (st.total < 1 || st.total > 1000000):
		return validationError("1 validation error detected: Value '%d' at 'totalSegments' failed to satisfy constraint: Member must have value between 1 and 1000000", st.total)
	case st.segment < 0 || st.hasTotal && st.segment >= st.total:
		return validationError("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d", st.segment, st.total)
	}
	return nil
}

// segmentPartitions returns the partitions of the request's segment in the order of a scan, from the start
// key's partition on. Segments split the range of hash codes evenly; without a segment it returns all. The
// commit lock must be held for writing.
func (s source) segmentPartitions(st *statement) []*partition {
	parts := s.orderedPartitions()
	if st.hasTotal {
		low := uint64(st.segment) << 32 / uint64(st.total)
		high := uint64(st.segment+1) << 32 / uint64(st.total)
		at := func(bound uint64) int {
			i, _ := slices.BinarySearchFunc(parts, bound, func(p *partition, bound uint64) int {
				if uint64(p.code) < bound {
					return -1
				}
				return 1
			})
			return i
		}
		parts = parts[at(low):at(high)]
	}
	if st.start == nil {
		return parts
	}
	hash := st.start[s.hash]
	from, _ := slices.BinarySearchFunc(parts, &partition{hash: hash, code: hashCode(hash)}, comparePartitions)
	return parts[from:]
}
