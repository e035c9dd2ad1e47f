package schema

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	// skRankPrefix does not begin like usage: an archive of what expires does not keep rankings.
	skRankPrefix = "#RANK#"
	rankSuffix   = "_top"
)

// Ranked is an entity of a ranking with its consumption, in millitokens.
type Ranked struct {
	Entity   string
	Consumed int64
}

// UsageRanking is the ranking of the entities that used a resource in an hour, the largest first, for each limit.
type UsageRanking struct {
	Resource string
	Hour     time.Time
	Limits   map[string][]Ranked
	// Made is the time at which the hour was read, in milliseconds since 1970.
	Made int64
	// Expires is the item's time to live in seconds since 1970; 0 without one.
	Expires int64
}

// UsageRank returns the key of the ranking of a resource in an hour.
func (k Keys) UsageRank(resource string, hour time.Time) Key {
	return Key{k.Resource(resource), skRankPrefix + hour.UTC().Format(hourLayout)}
}

// Item returns the item of a ranking, with each limit's entities and their consumption in one list. All its
// attributes are among those of sums.
func (r UsageRanking) Item(k Keys) Item {
	item := k.UsageRank(r.Resource, r.Hour).Attributes()
	item[attrResource] = String(r.Resource)
	item[attrWindow], item[attrWindowStart] = String(hourly), String(r.Hour.UTC().Format(hourLayout))
	item[attrMadeAt] = Number(r.Made)
	if r.Expires > 0 {
		item[TTL] = Number(r.Expires)
	}
	for limit, entities := range r.Limits {
		list := make([]types.AttributeValue, 0, 2*len(entities))
		for _, e := range entities {
			list = append(list, String(e.Entity), Number(e.Consumed))
		}
		item[usagePrefix+limit+rankSuffix] = &types.AttributeValueMemberL{Value: list}
	}
	return item
}

// DecodeUsageRanking reads the resource, hour and lists of a ranking's item; Made and Expires stay 0. It leaves
// out malformed entries, and a malformed hour stays zero.
func DecodeUsageRanking(item Item) UsageRanking {
	r := UsageRanking{Resource: Text(item, attrResource), Limits: map[string][]Ranked{}}
	r.Hour, _ = time.Parse(hourLayout, Text(item, attrWindowStart))
	for _, attr := range slices.Sorted(maps.Keys(item)) {
		limit, ours := strings.CutPrefix(attr, usagePrefix)
		limit, ranked := strings.CutSuffix(limit, rankSuffix)
		list, ok := item[attr].(*types.AttributeValueMemberL)
		if !ours || !ranked || !ok {
			continue
		}
		for pair := range slices.Chunk(list.Value, 2) {
			if len(pair) < 2 {
				continue
			}
			one := Item{attrEntity: pair[0], attrEntities: pair[1]}
			d := decoder{item: one}
			if n, ok := d.number(attrEntities); ok && EntityRule.Check(Text(one, attrEntity)) == "" {
				r.Limits[limit] = append(r.Limits[limit], Ranked{Text(one, attrEntity), n})
			}
		}
	}
	return r
}

// PutCondition returns the condition for a Put of the ranking: no ranking with a later Made is stored.
func (r UsageRanking) PutCondition() Statement {
	return UsageSum{Made: r.Made, Final: true}.PutCondition()
}
