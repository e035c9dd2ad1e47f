package schema

import (
	"encoding/binary"
	"math"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Note is the message that the lanes whose callers wait for a bucket leave each other in its item. No condition of
// a take reads it, so it decides when a lane tries, and never what is admitted.
type Note struct {
	// Until is the end of a reservation and At the last landed take of waiters, both in Unix ms. Without a
	// reservation Until is not after At.
	Until, At int64
	// Lane is the random id of the lane that wrote the note.
	Lane uint32
	// Age is the age at which waiters are served, and Spread the average delay of tries, both in ms.
	Age, Spread float64
	// Needs are the reserved amounts in millitokens, in the order of the item's limits. It is nil without a
	// reservation, and may be shorter than the list of limits.
	Needs []int64
}

// Notes are the notes in an item: that of interactive waiters and that of batch waiters, each nil without one.
type Notes struct{ Interactive, Batch *Note }

// NoteFor returns the note of batch waiters or of interactive waiters. It returns nil without that note and for
// nil Notes.
func (n *Notes) NoteFor(batch bool) *Note {
	switch {
	case n == nil:
		return nil
	case batch:
		return n.Batch
	}
	return n.Interactive
}

// NextNote replaces the note of a class of waiters in an item.
type NextNote struct {
	Batch bool
	Note  []byte
}

// noteAttr returns the name of the bucket attribute with the note of a class of waiters.
func noteAttr(batch bool) string {
	if batch {
		return attrBatchNote
	}
	return attrWaiterNote
}

const (
	noteVersion = 1
	noteSize    = 1 + 6 + 6 + 4 + 4 + 4
	// mostNoteMS bounds the age and the spread of a note, in ms.
	mostNoteMS = 1 << 32
)

// Bytes encodes the note: version, until and at in 6 bytes, lane, age and spread in 4, then the needs as
// varints. A negative need becomes 0.
func (n *Note) Bytes() []byte {
	b := make([]byte, 0, noteSize+binary.MaxVarintLen64*len(n.Needs))
	b = append(b, noteVersion)
	for _, t := range [...]int64{n.Until, n.At} {
		b = append(b, byte(t>>40), byte(t>>32), byte(t>>24), byte(t>>16), byte(t>>8), byte(t))
	}
	b = binary.BigEndian.AppendUint32(b, n.Lane)
	b = binary.BigEndian.AppendUint32(b, math.Float32bits(float32(n.Age)))
	b = binary.BigEndian.AppendUint32(b, math.Float32bits(float32(n.Spread)))
	for _, need := range n.Needs {
		b = binary.AppendUvarint(b, uint64(max(0, need))) //nolint:gosec // not negative
	}
	return b
}

// noteOf reads the note in an attribute. It is nil without one, and for an unknown version or a malformed note.
func noteOf(attr types.AttributeValue) *Note {
	v, ok := attr.(*types.AttributeValueMemberB)
	if !ok {
		return nil
	}
	return decodeNote(v.Value)
}

// decodeNote decodes the bytes of Note.Bytes. It returns nil for an unknown version, a malformed note, or times
// or needs out of range.
func decodeNote(b []byte) *Note {
	if len(b) < noteSize || b[0] != noteVersion {
		return nil
	}
	instant := func(b []byte) (ms int64) {
		for _, one := range b[:6] {
			ms = ms<<8 | int64(one)
		}
		return ms
	}
	time := func(b []byte) float64 { return float64(math.Float32frombits(binary.BigEndian.Uint32(b))) }
	n := &Note{Until: instant(b[1:]), At: instant(b[7:]), Lane: binary.BigEndian.Uint32(b[13:]), Age: time(b[17:]), Spread: time(b[21:])}
	if !(n.Age >= 0 && n.Age <= mostNoteMS && n.Spread >= 0 && n.Spread <= mostNoteMS) { // also not a number
		return nil
	}
	for b = b[noteSize:]; len(b) > 0; {
		need, size := binary.Uvarint(b)
		if size <= 0 || need > math.MaxInt64 || len(n.Needs) == MaxStored {
			return nil
		}
		n.Needs, b = append(n.Needs, int64(need)), b[size:]
	}
	return n
}
