package ddbmem

import (
	"strconv"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// halves counts capacity in half units, the smallest DynamoDB charges.
type halves int64

// units converts half units to capacity units.
func (h halves) units() float64 { return float64(h) / 2 }

// append appends h to b in capacity units, as a JSON number with one decimal.
func (h halves) append(b []byte) []byte { return strconv.AppendFloat(b, h.units(), 'f', 1, 64) }

// writeUnits returns the write units for an item of size bytes: one for each started KB, at least one.
func writeUnits(size int) int64 { return max(1, int64(size+1023)/1024) }

// readHalves returns the capacity of reading size bytes, in halves of a read unit: one unit per started 4 KB,
// or a half if the read need not be consistent. Size 0 costs as much as 4 KB.
func readHalves(size int, consistent bool) halves {
	blocks := halves(max(1, (size+4095)/4096))
	if consistent {
		return 2 * blocks
	}
	return blocks
}

// indexUse is the charge of one index.
type indexUse struct {
	name        string
	read, write halves
}

// tableUse is a request's charge of one table and its indexes.
type tableUse struct {
	name        string
	read, write halves // of the table alone
	indexes     []indexUse
}

// usage is the charge of a request.
type usage []*tableUse

// tableEntry returns the entry with the capacity that the request has used of a table, in half units; the
// caller adds to it. It appends an empty entry to u if the request has not used the table yet.
func (u *usage) tableEntry(t *table) *tableUse {
	for _, x := range *u {
		if x.name == t.name {
			return x
		}
	}
	x := &tableUse{name: t.name}
	*u = append(*u, x)
	return x
}

// indexEntry returns the entry with the capacity that the request has used of an index, in half units; the
// caller adds to it. It appends an empty entry at the first use, which invalidates earlier pointers.
func (u *tableUse) indexEntry(name string) *indexUse {
	for i := range u.indexes {
		if u.indexes[i].name == name {
			return &u.indexes[i]
		}
	}
	u.indexes = append(u.indexes, indexUse{name: name})
	return &u.indexes[len(u.indexes)-1]
}

// totals returns the charges of the table and its indexes, in half units.
func (u *tableUse) totals() (read, write halves) {
	read, write = u.read, u.write
	for _, ix := range u.indexes {
		read += ix.read
		write += ix.write
	}
	return read, write
}

// totals returns the charges of all tables and their indexes, in half units.
func (u usage) totals() (read, write halves) {
	for _, t := range u {
		r, w := t.totals()
		read += r
		write += w
	}
	return read, write
}

// chargeWrite adds the capacity of a write of one item to the usage of its table and of each changed index. The
// larger of old and new item counts. The factor times is 2 in a transaction, else 1.
func (u *usage) chargeWrite(ch *change, times int64) {
	var now *row
	size := 0
	if ch.old != nil {
		size = ch.old.size
	}
	if ch.new != nil {
		now = newRow(position{ch.key.sort, ch.key}, ch.new)
		size = max(size, now.size)
	}
	use := u.tableEntry(ch.table)
	use.write += halves(2 * times * writeUnits(size))
	for _, ix := range ch.table.indexes {
		if n := ix.writeUnits(ch.table, ch.old, now); n > 0 {
			use.indexEntry(ix.name).write += halves(2 * times * n)
		}
	}
}

// chargeRefused adds the capacity of a write without effect, such as a refused one, to the table's usage. It
// costs the size of the stored item, at least one unit, and nothing for indexes. The factor times is 2 in a
// transaction, else 1.
func (u *usage) chargeRefused(ch *change, times int64) {
	size := 0
	if ch.old != nil {
		size = ch.old.size
	}
	u.tableEntry(ch.table).write += halves(2 * times * writeUnits(size))
}

// append appends the capacity in u to b as one ConsumedCapacity object, in capacity units. With detail it shows
// the table and each index separately, with apart also read and write units.
func (u *tableUse) append(b []byte, detail, apart bool) []byte {
	read, write := u.totals()
	b = wire.AppendString(wire.Field(append(b, '{'), "TableName"), u.name)
	b = appendUnits(b, read, write, apart)
	if detail {
		b = append(wire.Field(b, "Table"), '{')
		b = append(appendUnits(b, u.read, u.write, apart), '}')
		if len(u.indexes) > 0 {
			b = append(wire.Field(b, "GlobalSecondaryIndexes"), '{')
			for _, ix := range u.indexes {
				b = append(wire.Field(b, ix.name), '{')
				b = append(appendUnits(b, ix.read, ix.write, apart), '}')
			}
			b = append(b, '}')
		}
	}
	return append(b, '}')
}

// appendUnits appends CapacityUnits, the sum of read and write units. With apart it also appends each of them
// that is above zero.
func appendUnits(b []byte, read, write halves, apart bool) []byte {
	b = (read + write).append(wire.Field(b, "CapacityUnits"))
	if apart && read > 0 {
		b = read.append(wire.Field(b, "ReadCapacityUnits"))
	}
	if apart && write > 0 {
		b = write.append(wire.Field(b, "WriteCapacityUnits"))
	}
	return b
}
