package trail

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
	"sync"
	"time"
)

// crockford are the digits of Crockford's base 32, which sort as their values do.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

const (
	// idLength is how many digits an id has.
	idLength = 26
	// padding is the number of bits in the digits beyond the id's: the first holds 3.
	padding = idLength*5 - 128
)

// id is a ULID (github.com/ulid/spec): 48 bits of Unix milliseconds, then 80 random
// bits.
type id [16]byte

// latest is the last millisecond that an id has room for, in the year 10889.
const latest = 1<<48 - 1

// newID returns the id of an instant, ms milliseconds after 1970, with the given random part. An instant
// before 1970 counts as 1970, one after latest as latest.
func newID(ms int64, random [10]byte) id {
	var u id
	ms = min(max(ms, 0), latest)
	for i := range 6 {
		u[i] = byte(ms >> (8 * (5 - i)))
	}
	copy(u[6:], random[:])
	return u
}

// successor returns the smallest id above u.
func (u id) successor() id {
	for i := len(u) - 1; i >= 0; i-- {
		u[i]++
		if u[i] != 0 {
			break
		}
	}
	return u
}

// isAbove reports whether u sorts after v.
func (u id) isAbove(v id) bool { return string(u[:]) > string(v[:]) }

// String returns the id as 26 digits of base 32, which sort like the ids.
func (u id) String() string {
	var out [idLength]byte
	for i := range out {
		var digit byte
		for bit := range 5 {
			digit <<= 1
			if at := i*5 + bit - padding; at >= 0 {
				digit |= u[at/8] >> (7 - at%8) & 1
			}
		}
		out[i] = crockford[digit]
	}
	return string(out[:])
}

// IDs draws the ids of one process: each is larger than those before it, also within a
// millisecond and when the clock is set back. The zero value is ready, and safe for
// concurrent use.
type IDs struct {
	mu   sync.Mutex
	last id
}

// mostAhead is how far the clock of another process may be ahead of ours: ids of later are
// those of a wrong clock.
const mostAhead = time.Minute

// New returns the id of an event at now. It is above every id that s has returned before.
func (s *IDs) New(now time.Time) string { return s.Above("", now) }

// Above returns a new id above last, the id of the target's previous event, and above every id that s has
// returned before. It ignores last if that is more than a minute ahead of now, because the ids of all later
// events would show that time.
func (s *IDs) Above(last string, now time.Time) string {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails
	u := newID(now.UnixMilli(), random)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.last
	if other, ok := parseID(last); ok && other.isAbove(before) && other.unixMS() <= now.Add(mostAhead).UnixMilli() {
		before = other
	}
	if !u.isAbove(before) {
		u = before.successor()
	}
	s.last = u
	return u.String()
}

// FirstID returns the lowest id of a millisecond: ids of later events sort after it, those of earlier ones
// before it.
func FirstID(t time.Time) string { return newID(t.UnixMilli(), [10]byte{}).String() }

// TimeOf returns the time at which an id was drawn, to the millisecond; ok is false for an invalid id.
func TimeOf(text string) (time.Time, bool) {
	u, ok := parseID(text)
	return time.UnixMilli(u.unixMS()).UTC(), ok
}

// parseID decodes the 26 digits of an id; ok is false for any other text.
func parseID(text string) (u id, ok bool) {
	if len(text) != idLength || text[0] > '7' {
		return id{}, false
	}
	for i := range idLength {
		digit := strings.IndexByte(crockford, text[i])
		if digit < 0 {
			return id{}, false
		}
		for bit := range 5 {
			if at := i*5 + bit - padding; at >= 0 {
				u[at/8] |= byte(digit>>(4-bit)&1) << (7 - at%8)
			}
		}
	}
	return u, true
}

// unixMS returns the time of an id in Unix ms.
func (u id) unixMS() int64 { return int64(binary.BigEndian.Uint64(u[:8]) >> 16) }
