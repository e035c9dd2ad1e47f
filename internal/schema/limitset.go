package schema

import (
	"slices"
	"strings"
	"sync"
)

// Attribute names of bucket items that are not per limit.
const (
	attrEntity      = "entity_id"
	attrResource    = "resource"
	attrRefilled    = "rf"
	attrFingerprint = "cv"
	attrConfigRead  = "ct"
	attrIncarnation = "ci"

	bucketPrefix = "b_"
)

// BucketAttributes returns the names of the attributes of buckets and their limits, for a policy, as patterns
// in which * stands for any text. Attributes of configured limits, blocks and parents never match them. It
// leaves out notes of waiters, units, alerts and counters by model.
func BucketAttributes() []string {
	names := []string{PK, SK, attrEntity, attrResource, attrRefilled, attrFingerprint, attrConfigRead, attrIncarnation, TTL, GSI2PK, GSI2SK}
	return append(append(names, opAttrs[:]...), bucketPrefix+"*", quotaPrefix+"*", slotsPrefix+"*", attrPause)
}

// OpSlots is the number of clients with a last write recorded in an item.
const OpSlots = 4

var opAttrs = [OpSlots]string{"op0", "op1", "op2", "op3"}

// limitAttrs are the attribute names of one limit in a bucket item.
type limitAttrs struct {
	tokens, capacity, burst, amount, period, consumed string
	// passed is the part of consumed that a level above counts too. A limit has it after the first such
	// consumption.
	passed string
	// window, windows and unit belong to a quota, which lacks capacity, amount and period.
	window, windows, unit string
	// life counts the changes of the limit's kind or unit. A limit has it after the first change, under the
	// same name for every kind.
	life string
	// epochs is the prefix of the attributes of the epochs of slots, which lack all others but tokens and
	// burst.
	epochs string
}

// fieldPassed is the suffix of that attribute.
const fieldPassed = "up"

// fieldLife is the suffix of the attribute that counts the lives of a limit.
const fieldLife = "lf"

// slotsAttrs returns the attribute names of a limit of calls in flight. Its epochs have names of their own.
func slotsAttrs(name string) limitAttrs {
	p := slotsPrefix + name + "_"
	return limitAttrs{life: bucketPrefix + name + "_" + fieldLife, tokens: p + "tk", burst: p + "bx", epochs: p + fieldEpoch}
}

// epoch returns the name of the attribute of the epoch with this end.
func (a limitAttrs) epoch(end int64) string { return epochAttr(a.epochs, end) }

// attrsOf returns the attribute names of a quota or of a token bucket.
func attrsOf(name string, quota bool) limitAttrs {
	life := bucketPrefix + name + "_" + fieldLife
	if p := quotaPrefix + name + "_"; quota {
		return limitAttrs{life: life, tokens: p + "tk", burst: p + "bx", consumed: p + "tc", passed: p + fieldPassed, window: p + fieldWindow, windows: p + fieldWindows, unit: unitAttr(name)}
	}
	p := bucketPrefix + name + "_"
	return limitAttrs{
		life: life, tokens: p + "tk", capacity: p + "cp", burst: p + "bx", amount: p + "ra", period: p + "rp", consumed: p + "tc", passed: p + fieldPassed,
	}
}

// isQuota reports whether the attributes are those of a quota.
func (a limitAttrs) isQuota() bool { return a.window != "" }

// isSlots reports whether the attributes are those of a limit of calls in flight.
func (a limitAttrs) isSlots() bool { return a.epochs != "" }

// allAlways returns the names of the attributes that every limit of its kind has. It leaves out passed, life,
// unit and epochs.
func (a limitAttrs) allAlways() []string {
	if a.isQuota() {
		return []string{a.tokens, a.burst, a.consumed, a.window, a.windows}
	}
	if a.capacity == "" { // slots
		return []string{a.tokens, a.burst}
	}
	return []string{a.tokens, a.capacity, a.burst, a.amount, a.period, a.consumed}
}

// requireLife adds to the statement the condition that a limit is in a life; life 0 requires the attribute to
// be absent.
func (b *statementBuilder) requireLife(a limitAttrs, life uint16) {
	if life == 0 {
		b.requireAbsent(a.life)
		return
	}
	b.requireCompare(a.life, "=", Number(int64(life)))
}

// splitBucketAttr splits b_{name}_{field} of a token bucket, or q_{name}_{field} of a quota, at the last
// underscore. ok is false for any other attribute.
func splitBucketAttr(attr string) (name, field string, quota, ok bool) {
	rest, ok := strings.CutPrefix(attr, bucketPrefix)
	if !ok {
		rest, quota = strings.CutPrefix(attr, quotaPrefix)
	}
	i := strings.LastIndexByte(rest, '_')
	if !ok && !quota || i <= 0 {
		return "", "", false, false
	}
	return rest[:i], rest[i+1:], quota, true
}

// LimitSet is the limits of an item in name order, with the attribute names and the expressions of their
// writes, which are built once.
type LimitSet struct {
	Names []string
	// Quotas means that some of them are quotas, and Slots that some limit calls in flight.
	Quotas, Slots bool
	attrs         []limitAttrs
	// attributes is the number of their attributes, apart from passed.
	attributes int
	texts      *statementTexts
}

// Index returns the position of a limit in the set, or -1; -1 for a nil set.
func (s *LimitSet) Index(name string) int {
	if s == nil {
		return -1
	}
	return slices.Index(s.Names, name) // they are few: faster than a binary search
}

// maxLimitSets bounds the cached sets. A service uses a handful.
const maxLimitSets = 1024

// LimitSets shares the LimitSet of equal lists of names.
type LimitSets struct {
	texts *statementTexts

	mu   sync.RWMutex
	sets map[string]*LimitSet
}

// NewLimitSets returns an empty registry of limit sets, with an empty cache of statement texts.
func NewLimitSets() *LimitSets {
	return &LimitSets{texts: newStatementTexts(), sets: map[string]*LimitSet{}}
}

// NamesAlone returns a LimitSet with names only, for an image that is only read. It has no attribute names, so
// no request may use it.
func NamesAlone(names []string) *LimitSet { return &LimitSet{Names: names} }

// Of returns the shared LimitSet of token buckets with these names, which must be sorted. It makes the set at
// its first use.
func (r *LimitSets) Of(names []string) *LimitSet { return r.OfKinds(names, nil) }

// OfKinds returns the shared LimitSet of the sorted names, and makes it if it is new. The names in quotas are
// quotas, those in slots limit calls in flight, and the others are token buckets. It caches at most 1,024 sets.
func (r *LimitSets) OfKinds(names, quotas []string, slots ...string) *LimitSet {
	key := strings.Join(names, "#") // '#' is not allowed in names
	if len(quotas) > 0 {
		key += "##" + strings.Join(quotas, "#")
	}
	if len(slots) > 0 {
		key += "###" + strings.Join(slots, "#")
	}
	r.mu.RLock()
	set := r.sets[key]
	r.mu.RUnlock()
	if set != nil {
		return set
	}
	set = &LimitSet{Names: slices.Clone(names), Quotas: len(quotas) > 0, Slots: len(slots) > 0, texts: r.texts}
	for _, name := range set.Names {
		if slices.Contains(slots, name) {
			set.attrs = append(set.attrs, slotsAttrs(name))
		} else {
			set.attrs = append(set.attrs, attrsOf(name, slices.Contains(quotas, name)))
		}
		set.attributes += len(set.attrs[len(set.attrs)-1].allAlways())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.sets[key]; known != nil {
		return known
	}
	if len(r.sets) < maxLimitSets {
		r.sets[key] = set
	}
	return set
}
