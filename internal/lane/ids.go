package lane

import (
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// IDs makes the ids of a client's writes: 8 bytes for the operation, unique
// among all clients, and one for the try.
type IDs struct {
	base uint64
	next atomic.Uint64
	// Slot is the slot of the item in which this client writes them.
	Slot int
}

func newOpIDs() *IDs {
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails: crypto/rand aborts the program instead
	base := binary.BigEndian.Uint64(seed[:])
	return IDsFrom(base, int(base%schema.OpSlots))
}

// IDsFrom makes ids that follow base, for a slot.
func IDsFrom(base uint64, slot int) *IDs { return &IDs{base: base, Slot: slot} }

// Operation returns a new operation.
func (ids *IDs) Operation() uint64 { return ids.base + ids.next.Add(1) }

// idLength is the length of the id of a try.
const idLength = 9

// lastOp is the id of a write in a slot, if it is known.
type lastOp struct {
	known bool
	id    [idLength]byte
}

// set keeps an id. It forgets the last one if the id is not of a lane's length.
func (l *lastOp) set(id []byte) {
	if l.known = len(id) == idLength; l.known {
		copy(l.id[:], id)
	}
}

// is reports whether the id in a slot is the stored one.
func (l *lastOp) is(id []byte) bool { return l.known && string(id) == string(l.id[:]) }

// OpID is the id of a try of an operation.
func OpID(operation uint64, try int) []byte {
	id := make([]byte, idLength)
	binary.BigEndian.PutUint64(id, operation)
	id[8] = byte(try)
	return id
}

// isTryOf reports whether the id in an op slot belongs to a try of the operation.
func isTryOf(slot []byte, operation uint64) bool {
	return len(slot) == idLength && binary.BigEndian.Uint64(slot) == operation
}
