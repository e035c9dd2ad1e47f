package schema

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// Stored is one limit of a bucket item, in millitokens and milliseconds.
type Stored struct {
	bucket.Rate
	Tokens, Capacity, Consumed int64
	// Passed is the part of Consumed that another level counts too.
	Passed int64
	// Window is the ordinal of a quota's window; 0 of a token bucket. It has 32 bits to save memory in a
	// stored limit.
	Window int32
	// Life counts the changes of the limit's kind or unit in the item, at most bucket.LastLife.
	Life uint16
	// Ghost means that the limit lacks its parameters or its tokens. An unconditional ADD of another writer
	// met a bucket without the limit, or another writer set the parameters of a limit that the bucket did not
	// have. A ghost has its burst, less its charges.
	Ghost bool
	// has says which of its rare attributes exist.
	has parts
}

// parts are the existing attributes of a ghost, and of any limit the unit.
type parts uint8

const (
	hasTokens parts = 1 << iota
	hasBurst
	// hasUnit is set for any limit whose unit the item has.
	hasUnit
)

// WindowID returns the window and the life of the limit as one id. It is 0 for a token bucket in its first
// life.
func (l *Stored) WindowID() bucket.WindowID {
	if l.Window == 0 && l.Life == 0 { // a token bucket in its first life
		return 0
	}
	return bucket.InLife(l.Life, int64(l.Window))
}

// InWindow returns a copy of the limit with the given ordinal as its window; 0 for a token bucket. Its life
// stays.
func (l Stored) InWindow(window int64) Stored {
	l.Window = int32(window) //nolint:gosec // hours since 1970 fit until the year 246,000
	return l
}

// Image is a bucket item as last seen. It is never changed: a newer answer makes a new image.
type Image struct {
	// Set names the limits; Limits are in its order.
	Set    *LimitSet
	Limits []Stored
	// Refilled is the shared refill instant. HasRefilled is false for a ghost item, which has no such
	// instant.
	Refilled    int64
	HasRefilled bool
	paused      instant
	// Plain means that every limit is in window 0: no limit is a quota, and none was one. It may be false for
	// such an image.
	Plain bool
	// Fingerprint identifies the limits last written. It is nil if another implementation wrote them.
	// ConfigRead is the instant of their read, less a second.
	Fingerprint []byte
	ConfigRead  int64
	// TTL is the expiry in seconds since the epoch, 0 without one.
	TTL int64
	// Incarnation is the id of the create that made the item. It is nil if another implementation made it. A
	// bucket that was deleted and made again is another bucket, and takes no give-backs for the old one.
	Incarnation []byte
	// Op is the id of the last write by a client of the reader's slot. ops are the ids of all slots.
	Op  WriteID
	ops [OpSlots]WriteID
	// HasPause means that PausedUntil is not 0.
	HasPause bool
	// size is about the size of the item in bytes; 0 for an image without quotas, or one that was computed.
	size uint16
	// Notes are the notes of waiters; nil without one.
	Notes *Notes
	// epochs are those of the limits of calls in flight; nil without one.
	epochs *imageEpochs
	// Extras are the counters by model and the alerts; nil without one.
	Extras *Extras
}

// PausedUntil returns the Unix ms until which the bucket admits no take, perhaps in the past; 0 without a
// pause. No condition of a write checks it, so that takes still commute.
func (m *Image) PausedUntil() (ms int64) {
	for i, b := range m.paused {
		ms |= int64(b) << (8 * i)
	}
	return ms
}

// instant is a time in Unix ms, until the year 10,889. Beside a bool it takes no extra memory.
type instant [6]byte

// instantOf returns a time in Unix ms as six bytes, the lowest first. It loses bits of a time before 1970 or
// after the year 10,889.
func instantOf(ms int64) (t instant) {
	for i := range t {
		t[i] = byte(ms >> (8 * i))
	}
	return t
}

// WriteID is the id of a write, stored inside the image. A slice of the answer would keep the whole answer in
// memory for as long as the image is cached.
type WriteID struct {
	size  uint8
	bytes [opSize]byte
}

// opSize is the length of a write's id: 8 bytes for the operation, one for the try.
const opSize = 9

// WriteIDOf returns b, the content of an op slot, as a WriteID. It cuts b to 9 bytes.
func WriteIDOf(b []byte) (id WriteID) {
	id.size = uint8(copy(id.bytes[:], b)) //nolint:gosec // at most opSize
	return id
}

// Bytes returns the id as a slice of id's own memory, to be read only; nil without an id.
func (id *WriteID) Bytes() []byte {
	if id.size == 0 {
		return nil
	}
	return id.bytes[:id.size:id.size]
}

// ForeignSince reports whether another implementation wrote the bucket after the older image. That is so if the
// refill instant differs, but incarnation, fingerprint and all op slots are the same; false for a nil image.
func (m *Image) ForeignSince(older *Image) bool {
	if m == nil || older == nil || m.Refilled == older.Refilled || older.Fingerprint == nil ||
		!bytes.Equal(m.Incarnation, older.Incarnation) || !bytes.Equal(m.Fingerprint, older.Fingerprint) {
		return false
	}
	return m.ops == older.ops
}

// HasLimit reports whether the item has the limit, and not as a ghost. It is false for a nil image.
func (m *Image) HasLimit(name string) bool {
	if m == nil {
		return false
	}
	i := m.Set.Index(name)
	return i >= 0 && !m.Limits[i].Ghost
}

// IncarnationID returns the id of the bucket's incarnation; nil for a nil image or without an id.
func (m *Image) IncarnationID() []byte {
	if m == nil {
		return nil
	}
	return m.Incarnation
}

// State returns limit i as a bucket.State, from which package bucket computes the level. Of a quota, Refilled
// is the ordinal of its window.
func (m *Image) State(i int) bucket.State {
	l := &m.Limits[i]
	if !m.Plain && l.IsQuota() {
		return bucket.State{Rate: l.Rate, Tokens: l.Tokens, Refilled: int64(l.Window)}
	}
	return bucket.State{Rate: l.Rate, Tokens: l.Tokens, Refilled: m.Refilled}
}

// DecodeBucket reads a bucket item; nil for an absent one. The hint is the set of the previous image, which
// nearly always has the same limits, and slot is the reader's op slot.
//
// It fails with *UnknownKind for a limit of an unknown kind. It returns an image as well as an error for a
// malformed attribute.
//
//nolint:cyclop,gocognit // one guard for each attribute that few buckets have
func (r *LimitSets) DecodeBucket(item Item, hint *LimitSet, slot int) (*Image, error) {
	if len(item) == 0 {
		return nil, nil
	}
	set := hint
	if hint == nil || !hint.describes(item) {
		var err error
		if set, err = r.setOf(item); err != nil {
			return nil, err
		}
	}
	m := &Image{Set: set, Limits: make([]Stored, len(set.Names))}
	d := decoder{item: item}
	m.Refilled, m.HasRefilled = d.number(attrRefilled)
	m.ConfigRead, _ = d.number(attrConfigRead)
	m.TTL, _ = d.number(TTL)
	if until, paused := d.number(attrPause); paused {
		m.paused, m.HasPause = instantOf(until), until != 0
	}
	if item[attrWaiterNote] != nil || item[attrBatchNote] != nil {
		m.Notes = &Notes{noteOf(item[attrWaiterNote]), noteOf(item[attrBatchNote])}
	}
	m.Fingerprint = d.bytes(attrFingerprint)
	m.Incarnation = d.bytes(attrIncarnation)
	for i, attr := range opAttrs {
		if m.ops[i].size = uint8(copy(m.ops[i].bytes[:], d.bytes(attr))); i == slot { //nolint:gosec // at most opSize
			m.Op = m.ops[i]
		}
	}
	m.Plain = !set.Quotas && !set.Slots
	for i := range set.attrs {
		a, l := &set.attrs[i], &m.Limits[i]
		tokens, tokensThere := d.number(a.tokens)
		burst, burstThere := d.number(a.burst)
		if l.Tokens, l.Burst = tokens, burst; tokensThere {
			l.has |= hasTokens
		}
		if burstThere {
			l.has |= hasBurst
		}
		life, _ := d.number(a.life)
		l.Life = uint16(min(max(0, life), bucket.LastLife)) //nolint:gosec // bounded
		m.Plain = m.Plain && life == 0
		if set.Slots && a.isSlots() {
			l.Rate, l.Capacity, l.Window = bucket.Slots(l.Burst, 1), l.Burst, unknownSlots
			l.Ghost = !tokensThere || l.Burst < 1
			continue
		}
		l.Consumed = d.counter(a.consumed)
		l.Passed = d.counter(a.passed)
		if set.Quotas && a.isQuota() {
			window, hasWindow := d.number(a.window)
			if item[a.unit] != nil {
				l.has |= hasUnit
			}
			l.Window, hasWindow = int32(window), hasWindow && window == int64(int32(window)) //nolint:gosec // checked beside
			l.Rate, l.Capacity = d.quotaRate(l.Burst, a.windows), l.Burst
			l.Ghost = !tokensThere || l.Burst < 1 || !l.IsQuota() || !hasWindow
			continue
		}
		l.Capacity, _ = d.number(a.capacity)
		l.Amount, _ = d.number(a.amount)
		l.Period, _ = d.number(a.period)
		l.Ghost = !tokensThere || l.Burst < 1 || l.Amount < 1 || l.Period < 1
	}
	if set.Slots {
		m.epochs = d.readEpochs(set)
	}
	if set.Quotas {
		m.readExtras(item)
	}
	if d.err != nil {
		key := KeyOf(item)
		return m, fmt.Errorf("item %q, %q: %w", key.PK, key.SK, d.err)
	}
	return m, nil
}

// setOf returns the shared LimitSet of an item's limits. It returns an *UnknownKind for a limit of an unknown
// kind.
func (r *LimitSets) setOf(item Item) (*LimitSet, error) {
	if unknown := UnknownState(item); unknown != nil {
		return nil, unknown
	}
	names, quotas, inFlight := limitNames(item)
	return r.OfKinds(names, quotas, inFlight...), nil
}

// describes reports whether the item's limits are exactly those of the set, each with all its attributes, and
// none of an unknown kind. Attributes of passed amounts, lives and epochs do not matter.
func (s *LimitSet) describes(item Item) bool {
	count := 0
	for name := range item {
		quota, slots := strings.HasPrefix(name, quotaPrefix), strings.HasPrefix(name, slotsPrefix)
		if quota || slots {
			if _, unknown := isUnknownState(item, name); unknown {
				return false
			}
		}
		if slots {
			if _, field := splitSlots(name); field == "tk" || field == "bx" {
				count++
			}
			continue
		}
		if (quota || strings.HasPrefix(name, bucketPrefix)) && !strings.HasSuffix(name, "_"+fieldPassed) && !strings.HasSuffix(name, "_"+fieldLife) {
			count++
		}
	}
	if count != s.attributes {
		return false
	}
	for i := range s.attrs {
		if item[s.attrs[i].burst] == nil {
			return false
		}
	}
	return true
}

// limitNames returns the names of all limits of a bucket item, of its quotas, and of its limits of calls in
// flight. Each list is sorted and without repetitions.
func limitNames(item Item) (names, quotas, inFlight []string) {
	for attr := range item {
		if name, field := splitSlots(attr); field == "tk" || field == "bx" {
			names, inFlight = append(names, name), append(inFlight, name)
			continue
		}
		name, field, quota, ok := splitBucketAttr(attr)
		if !ok || !slices.Contains([]string{"tk", "bx", "tc", "cp", "ra", "rp", fieldWindow, fieldWindows}, field) {
			continue
		}
		if names = append(names, name); quota {
			quotas = append(quotas, name)
		}
	}
	slices.Sort(names)
	slices.Sort(quotas)
	slices.Sort(inFlight)
	return slices.Compact(names), slices.Compact(quotas), slices.Compact(inFlight)
}

// unknownSlots is the window of slots by an image, which does not say when they were taken.
const unknownSlots = -1

// imageEpochs are the epochs of the limits of an image, by their place, in order of their ends.
type imageEpochs struct{ byPlace [][]bucket.Epoch }

// Epochs returns the image's own epochs of limit i, past ones too, in order of their ends. It is nil for any
// limit but one of calls in flight.
func (m *Image) Epochs(i int) []bucket.Epoch {
	if m.epochs == nil || i >= len(m.epochs.byPlace) {
		return nil
	}
	return m.epochs.byPlace[i]
}

// SlotsOf returns the image's own limit of calls in flight with a name, which callers must not change. It
// returns nil if the item lacks that limit, or has it as a ghost or as another kind.
func (m *Image) SlotsOf(name string) *Stored {
	if m.HasLimit(name) {
		if l := &m.Limits[m.Set.Index(name)]; l.IsSlots() {
			return l
		}
	}
	return nil
}

// FreeSlots returns the free slots of limit i at now, in thousandths of a slot. The taken slots of past epochs
// count as free. hold and now are in ms.
func (m *Image) FreeSlots(i int, hold, now int64) int64 {
	return m.Limits[i].Tokens + bucket.PastSlots(m.Epochs(i), hold, now)
}

// readEpochs returns the epochs of each limit of calls in flight, sorted by end. A malformed number sets d.err.
func (d *decoder) readEpochs(set *LimitSet) *imageEpochs {
	all := &imageEpochs{byPlace: make([][]bucket.Epoch, len(set.Names))}
	for attr := range d.item {
		name, field := splitSlots(attr)
		i := set.Index(name)
		if field != fieldEpoch || i < 0 || !set.attrs[i].isSlots() {
			continue
		}
		end, _ := epochIn(strings.TrimPrefix(attr, slotsPrefix+name+"_"))
		n, _ := d.number(attr)
		all.byPlace[i] = append(all.byPlace[i], bucket.Epoch{End: end, Slots: n})
	}
	for _, list := range all.byPlace {
		slices.SortFunc(list, func(a, b bucket.Epoch) int { return int(a.End - b.End) })
	}
	return all
}

// readExtras sets the image's size and, if the item has any, its counters by model, alerts, and marks of
// denials and grants.
func (m *Image) readExtras(item Item) {
	found, size := extrasIn(item)
	m.size = uint16(min(size, math.MaxUint16)) //nolint:gosec // bounded
	if len(found.Models)+len(found.Alerts)+len(found.Marks) > 0 {
		m.Extras = &found
	}
}

// HasModel reports whether the item has the counter by model of this name. It is false for a nil image.
func (m *Image) HasModel(counter string) bool {
	return m != nil && slices.Contains(m.Models(), counter)
}

// Models returns the names of the item's counters by model, sorted. Callers must not change the slice; it is
// nil without counters.
func (m *Image) Models() []string {
	if m == nil || m.Extras == nil {
		return nil
	}
	return m.Extras.Models
}

// RoomForModel reports whether a write may add a counter by model: the item has fewer than MostModels, and
// stays below 900 bytes. It is true for a nil image, and false if the image has no known size.
func (m *Image) RoomForModel(counter string) bool {
	if m == nil {
		return true
	}
	return m.size > 0 && len(m.Models()) < MostModels && int(m.size)+len(byModelPrefix+counter)+counterRoom < fullItem
}

// HasUnit reports whether the item has the unit of a limit.
func (m *Image) HasUnit(limit string) bool {
	i := m.Set.Index(limit)
	return i >= 0 && m.Limits[i].has&hasUnit != 0
}
