package schema

import (
	"maps"
	"slices"
)

const (
	fieldEarly = "a" // what of fieldNet was consumed when the hour had just begun
	fieldLate  = "z" // what of fieldNet was consumed shortly before the hour's end
)

// UsageEdges are what was consumed at the two full hours that bound an hour, by limit: in its
// first minute and in its last one, in millitokens. A limit of which no record was written
// then is not there.
type UsageEdges struct{ Early, Late map[string]int64 }

// edges adds what was consumed at full hours.
func (b *statementBuilder) edges(e UsageEdges) {
	for _, edge := range []struct {
		field string
		of    map[string]int64
	}{{fieldEarly, e.Early}, {fieldLate, e.Late}} {
		for _, name := range slices.Sorted(maps.Keys(edge.of)) {
			b.addNumber(usagePrefix+name+"_"+edge.field, edge.of[name])
		}
	}
}

// decodeEdges reads what was consumed of limits at full hours; nothing from a snapshot that
// was written before it was noted.
func decodeEdges(d *decoder, names []string) UsageEdges {
	e := UsageEdges{map[string]int64{}, map[string]int64{}}
	for _, name := range names {
		if n, there := d.number(usagePrefix + name + "_" + fieldEarly); there {
			e.Early[name] = n
		}
		if n, there := d.number(usagePrefix + name + "_" + fieldLate); there {
			e.Late[name] = n
		}
	}
	return e
}
