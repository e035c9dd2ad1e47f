package audit

import (
	"crypto/rand"
	"strings"
	"sync"
	"time"
)

// crockford are the digits of Crockford's base 32, which sort as their values do.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// idLength is how many digits an id has, timeDigits how many of them are its time.
const (
	idLength   = 26
	timeDigits = 10
)

// id is a ULID (github.com/ulid/spec): 48 bits of Unix milliseconds, then 80 random
// bits.
type id [16]byte

// latest is the last millisecond that an id has room for, in the year 10889.
const latest = 1<<48 - 1

// newID is the id of a moment. One before 1970 is taken for 1970, one after the latest
// for that.
func newID(ms int64, random [10]byte) id {
	var u id
	ms = min(max(ms, 0), latest)
	for i := range 6 {
		u[i] = byte(ms >> (8 * (5 - i)))
	}
	copy(u[6:], random[:])
	return u
}

// next is the smallest id above u.
func (u id) next() id {
	for i := len(u) - 1; i >= 0; i-- {
		u[i]++
		if u[i] != 0 {
			break
		}
	}
	return u
}

// above reports whether u sorts after v.
func (u id) above(v id) bool { return string(u[:]) > string(v[:]) }

// String is the id as text, 26 digits of base 32.
func (u id) String() string {
	var out [idLength]byte
	const padding = idLength*5 - 128 // the first digit holds 3 bits
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

// New returns the id of an event at a moment.
func (s *IDs) New(now time.Time) string {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	u := newID(now.UnixMilli(), random)
	if !u.above(s.last) {
		u = s.last.next()
	}
	s.last = u
	return u.String()
}

// FirstID is the lowest id of a moment: ids of later events sort after it, those of
// earlier ones before it.
func FirstID(t time.Time) string { return newID(t.UnixMilli(), [10]byte{}).String() }

// TimeOf is when an id was drawn, to the millisecond; false for what is no id.
func TimeOf(text string) (time.Time, bool) {
	if len(text) != idLength || text[0] > '7' {
		return time.Time{}, false
	}
	var ms int64
	for i := range idLength {
		digit := strings.IndexByte(crockford, text[i])
		if digit < 0 {
			return time.Time{}, false
		}
		if i < timeDigits {
			ms = ms<<5 | int64(digit)
		}
	}
	return time.UnixMilli(ms).UTC(), true
}
