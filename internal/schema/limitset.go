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

// BucketAttributes are the attributes that writes of buckets name, as patterns in which *
// stands for any text. Nothing that says what a limit is, who blocks whom or who is whose
// parent has a name like these.
func BucketAttributes() []string {
	names := []string{PK, SK, attrEntity, attrResource, attrRefilled, attrFingerprint, attrConfigRead, attrIncarnation, TTL, GSI2PK, GSI2SK}
	return append(append(names, opAttrs[:]...), bucketPrefix+"*", statePrefixes[0]+"*", statePrefixes[1]+"*", attrPause)
}

// OpSlots is how many clients' last writes an item remembers.
const OpSlots = 4

var opAttrs = [OpSlots]string{"op0", "op1", "op2", "op3"}

// limitAttrs are the attribute names of one limit in a bucket item.
type limitAttrs struct {
	tokens, capacity, burst, amount, period, consumed string
	// passed is the part of consumed that a level above counts too. A limit has it once
	// something of the kind was consumed.
	passed string
}

// fieldPassed ends the name of that attribute.
const fieldPassed = "up"

func attrsOf(name string) limitAttrs {
	p := bucketPrefix + name + "_"
	return limitAttrs{p + "tk", p + "cp", p + "bx", p + "ra", p + "rp", p + "tc", p + fieldPassed}
}

// all are those that every limit has.
func (a limitAttrs) all() [6]string {
	return [6]string{a.tokens, a.capacity, a.burst, a.amount, a.period, a.consumed}
}

// splitBucketAttr splits b_{name}_{field} at the last underscore.
func splitBucketAttr(attr string) (name, field string, ok bool) {
	rest, ok := strings.CutPrefix(attr, bucketPrefix)
	if !ok {
		return "", "", false
	}
	i := strings.LastIndexByte(rest, '_')
	if i <= 0 {
		return "", "", false
	}
	return rest[:i], rest[i+1:], true
}

// LimitSet is the limits of an item in name order, with what is built once for
// them: attribute names and the expressions of their writes.
type LimitSet struct {
	Names []string
	attrs []limitAttrs
	texts *spendTexts
}

// Index returns the position of a limit, or -1.
func (s *LimitSet) Index(name string) int {
	if s == nil {
		return -1
	}
	return slices.Index(s.Names, name) // they are few: faster than to halve
}

// maxLimitSets bounds the sets remembered; services use a handful.
const maxLimitSets = 1024

// LimitSets shares the LimitSet of equal lists of names.
type LimitSets struct {
	texts *spendTexts

	mu   sync.RWMutex
	sets map[string]*LimitSet
}

// NewLimitSets returns an empty registry.
func NewLimitSets() *LimitSets {
	return &LimitSets{texts: newSpendTexts(), sets: map[string]*LimitSet{}}
}

// NamesAlone is a set of sorted names for an image that is only looked at: no request is made
// with it.
func NamesAlone(names []string) *LimitSet { return &LimitSet{Names: names} }

// Of returns the set of the names, which must be sorted.
func (r *LimitSets) Of(names []string) *LimitSet {
	key := strings.Join(names, "#") // '#' is in no name
	r.mu.RLock()
	set := r.sets[key]
	r.mu.RUnlock()
	if set != nil {
		return set
	}
	set = &LimitSet{Names: slices.Clone(names), texts: r.texts}
	for _, name := range set.Names {
		set.attrs = append(set.attrs, attrsOf(name))
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
