package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// The layout before composite items, of zae-limiter 0.1 to 0.6 for buckets and to 0.7 for configurations, has
// an item for each limit. Until 0.5 the attributes are in a map, except the counter. From then on they are
// flat.

const (
	// attrNested is the map with the attributes of writers before 0.6.
	attrNested = "data"

	// LegacyBuckets and LegacyLimits are prefixes of sort keys in the layout before composite items. A
	// composite bucket has the same prefix as a legacy one; LegacyOf tells them apart.
	LegacyBuckets, LegacyLimits = skBucketPrefix, "#LIMIT#"

	legacyTokens   = "tokens_milli"
	legacyRefilled = "last_refill_ms"
	legacyCapacity = "capacity_milli"
	legacyBurst    = "burst_milli"
	legacyAmount   = "refill_amount_milli"
	legacyPeriod   = "refill_period_ms"
	legacyConsumed = "total_consumed_milli"

	legacyLimitCapacity = "capacity"
	legacyLimitBurst    = "burst"
	legacyLimitAmount   = "refill_amount"
	legacyLimitPeriod   = "refill_period_seconds"
)

// Legacy identifies an item of the layout before composite items.
type Legacy struct {
	// Keys are the keys of the item's namespace.
	Keys Keys
	// IsBucket tells a bucket from a configuration. Owner is the owner of the item; that of a bucket has an
	// entity and a resource.
	IsBucket bool
	Owner    ConfigOwner
	// Limit is the limit of the item.
	Limit string
}

// Composite returns the key of the bucket or configuration item of the present layout that replaces this item.
func (l Legacy) Composite() Key {
	if l.IsBucket {
		return l.Keys.Bucket(l.Owner.Entity, l.Owner.Resource)
	}
	return l.Keys.Config(l.Owner)
}

// LegacyOf returns the namespace, owner, limit and type of an item in the layout before composite items, by its
// key. It returns false for any other key.
func LegacyOf(key Key) (l Legacy, ok bool) {
	keys, kind, id, ok := splitPartition(key.PK)
	if !ok {
		return Legacy{}, false
	}
	l.Keys = keys
	sort, isLimit := strings.CutPrefix(key.SK, LegacyLimits)
	if !isLimit {
		if sort, l.IsBucket = strings.CutPrefix(key.SK, LegacyBuckets); !l.IsBucket {
			return Legacy{}, false
		}
	}
	switch {
	case kind == "ENTITY#":
		l.Owner.Entity = id
		l.Owner.Resource, l.Limit, ok = strings.Cut(sort, "#")
		ok = ok && id != "" && l.Owner.Resource != ""
	case l.IsBucket:
		return Legacy{}, false
	default:
		l.Owner.Resource, l.Limit = id, sort
		ok = (id == "") == (kind == "SYSTEM#")
	}
	return l, ok && l.Limit != "" && !strings.Contains(l.Limit, "#")
}

// splitPartition splits a partition key into its namespace's keys, the kind of owner such as "ENTITY#", and
// the owner's name. It returns false for the key of another kind.
func splitPartition(pk string) (k Keys, kind, id string, ok bool) {
	for _, kind := range []string{"ENTITY#", "RESOURCE#", "SYSTEM#"} {
		prefix, id, found := strings.Cut(pk, kind)
		if found && (prefix == "" || strings.HasSuffix(prefix, "/")) && !strings.Contains(prefix+id, "#") {
			return Keys{prefix: prefix}, kind, id, true
		}
	}
	return Keys{}, "", "", false
}

// Resources and limits have no '#', so that no partition holds another's legacy items.

// LegacyBucketPrefix returns the prefix of the sort keys of an entity's legacy buckets for a resource. No
// composite bucket has it.
func LegacyBucketPrefix(resource string) string { return skBucketPrefix + resource + "#" }

// LegacyBucket is one limit of a bucket in the layout before composite items.
type LegacyBucket struct {
	Legacy
	bucket.State
	Capacity, Consumed int64
	// TTL is the expiry in seconds since the epoch, 0 without one.
	TTL int64
	// Key is the key of the item, and Unchanged the condition that it is still as read.
	Key       Key
	Unchanged Statement
}

// DecodeLegacyBucket reads an item that LegacyOf named a bucket, in millitokens and ms, with the condition that
// it is still as read. A missing capacity is the burst. It fails for a malformed item, because a skipped limit
// would start full.
func DecodeLegacyBucket(item Item) (LegacyBucket, error) {
	b := LegacyBucket{Key: KeyOf(item)}
	var ok bool
	if b.Legacy, ok = LegacyOf(b.Key); !ok || !b.IsBucket {
		return b, fmt.Errorf("item %q, %q is no bucket of one limit", b.Key.PK, b.Key.SK)
	}
	d := legacyDecoder{decoder: decoder{item: item}, key: b.Key}
	b.Consumed = d.counter(legacyConsumed)
	b.TTL, _ = d.number(TTL)
	d.item = legacyAttributes(item, legacyTokens)
	b.Tokens = d.required(legacyTokens)
	b.Refilled = d.required(legacyRefilled)
	b.Burst = d.positive(legacyBurst)
	b.Amount = d.positive(legacyAmount)
	b.Period = d.positive(legacyPeriod)
	if b.Capacity, ok = d.number(legacyCapacity); !ok {
		b.Capacity = b.Burst
	}
	b.Unchanged = legacyUnchanged(item, legacyTokens, legacyRefilled, legacyCapacity, legacyBurst, legacyAmount, legacyPeriod, legacyConsumed)
	return b, d.wrapped()
}

// LegacyLimit is one limit of a configuration in the layout before composite items.
type LegacyLimit struct {
	Legacy
	ConfigLimit
	// Key is the key of the item, and Unchanged the condition that it is still as read.
	Key       Key
	Unchanged Statement
}

// DecodeLegacyLimit reads an item that LegacyOf named one of a configuration. A missing burst or refill
// amount is the capacity. It fails for a malformed one, because a skipped limit would not be enforced.
func DecodeLegacyLimit(item Item) (LegacyLimit, error) {
	l := LegacyLimit{Key: KeyOf(item)}
	var ok bool
	if l.Legacy, ok = LegacyOf(l.Key); !ok || l.IsBucket {
		return l, fmt.Errorf("item %q, %q is no limit of a configuration", l.Key.PK, l.Key.SK)
	}
	d := legacyDecoder{decoder: decoder{item: legacyAttributes(item, legacyLimitCapacity)}, key: l.Key}
	l.Name = l.Limit
	l.Capacity = d.required(legacyLimitCapacity)
	l.RefillPeriod = seconds(d.required(legacyLimitPeriod))
	if l.Burst, ok = d.number(legacyLimitBurst); !ok {
		l.Burst = l.Capacity
	}
	if l.RefillAmount, ok = d.number(legacyLimitAmount); !ok {
		l.RefillAmount = l.Capacity
	}
	l.Unchanged = legacyUnchanged(item, legacyLimitCapacity, legacyLimitBurst, legacyLimitAmount, legacyLimitPeriod)
	return l, d.wrapped()
}

// legacyAttributes returns the attributes of an older item: the item itself or, if that lacks required, the map
// in it by the oldest writers.
func legacyAttributes(item Item, required string) Item {
	if nested, ok := item[attrNested].(*types.AttributeValueMemberM); ok && item[required] == nil {
		return nested.Value
	}
	return item
}

// legacyUnchanged returns the condition that the attributes, and the map of older writers, are still as in the
// item. One that the item lacks must be absent.
func legacyUnchanged(item Item, attributes ...string) Statement {
	b := newStatementBuilder()
	for _, name := range append(attributes, attrNested) {
		if v := item[name]; v != nil {
			b.requireCompare(name, "=", v)
		} else {
			b.requireAbsent(name)
		}
	}
	return b.build()
}

// legacyDecoder requires attributes, because an item without them means nothing.
type legacyDecoder struct {
	decoder
	key Key
}

// required returns an integer attribute. A missing or malformed one sets d.err, unless d.err is set.
func (d *legacyDecoder) required(name string) int64 {
	n, ok := d.number(name)
	if !ok && d.err == nil {
		d.err = fmt.Errorf("attribute %s is missing", name)
	}
	return n
}

// positive returns an integer attribute of 1 or more. A missing, malformed or smaller one sets d.err, unless
// d.err is set.
func (d *legacyDecoder) positive(name string) int64 {
	n := d.required(name)
	if n < 1 && d.err == nil {
		d.err = fmt.Errorf("attribute %s is %d, want 1 or more", name, n)
	}
	return n
}

// wrapped returns d.err wrapped with the key of the item; nil if d.err is nil.
func (d *legacyDecoder) wrapped() error {
	if d.err == nil {
		return nil
	}
	return fmt.Errorf("item %q, %q: %w", d.key.PK, d.key.SK, d.err)
}

// ComposeBucket returns the Create of the one bucket that replaces the legacy buckets of its limits. Its refill
// instant is the latest of theirs, or now (Unix ms) if that is earlier; no limit then ever has more tokens than
// before. The caller adds the ttl and the id.
func ComposeBucket(of Legacy, limits []LegacyBucket, now int64) *Create {
	c := &Create{Keys: of.Keys, Entity: of.Owner.Entity, Resource: of.Owner.Resource}
	for i, l := range limits {
		if i == 0 || l.Refilled > c.Refilled {
			c.Refilled = l.Refilled
		}
	}
	c.Refilled = min(c.Refilled, now)
	for _, l := range limits {
		tokens := l.Level(c.Refilled)
		if l.Refilled > c.Refilled {
			early, _ := bucket.State{Rate: l.Rate, Refilled: c.Refilled}.Credit(l.Refilled)
			tokens = max(-bucket.MaxCredit, tokens-early)
		}
		c.Limits = append(c.Limits, NewLimit(&Limit{Name: l.Limit, Capacity: l.Capacity, Rate: l.Rate}, tokens, l.Consumed))
	}
	slices.SortFunc(c.Limits, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// ComposeConfig returns the configuration of stored, which may be nil, with the limits of the legacy items and
// the next version. It returns false, and stored's own configuration, if that already has limits or is
// unlimited. It fails if stored is malformed.
func ComposeConfig(stored Item, limits []LegacyLimit) (c ConfigItem, ok bool, err error) {
	if stored != nil {
		if c, err = DecodeConfig(stored); err != nil {
			return ConfigItem{}, false, err
		}
		if len(c.Limits) > 0 || c.Unlimited {
			return c, false, nil
		}
	}
	for _, l := range limits {
		c.Limits = append(c.Limits, l.ConfigLimit)
	}
	slices.SortFunc(c.Limits, func(a, b ConfigLimit) int { return strings.Compare(a.Name, b.Name) })
	c.Version = ConfigVersion(stored) + 1
	return c, true, nil
}
