package laws

import (
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// The windows of quotas as the judge knows them: by package time and by what an item says, and
// by nothing of the library's.

// storedQuota is a quota as an item has it.
type storedQuota struct {
	n, tokens, window int64
	unit, zone        string
}

// quotaFields are the attributes that every quota has.
var quotaFields = []string{"tk", "bx", "tc", "w", "z"}

// quotaIn is a quota of an item; nil if the limit is none there.
func quotaIn(item schema.Item, name string) *storedQuota {
	number := func(field string) int64 {
		n, _ := item["q_"+name+"_"+field].(*types.AttributeValueMemberN)
		if n == nil {
			return 0
		}
		v, _ := strconv.ParseInt(n.Value, 10, 64)
		return v
	}
	windows, _ := item["q_"+name+"_z"].(*types.AttributeValueMemberS)
	if windows == nil {
		return nil
	}
	unit, zone, _ := strings.Cut(windows.Value, " ")
	return &storedQuota{n: number("bx"), tokens: number("tk"), window: number("w"), unit: unit, zone: zone}
}

// key names the window that a quota is in; "" is that of a token bucket.
func (q *storedQuota) key() string {
	if q == nil {
		return ""
	}
	return q.unit + " " + strconv.FormatInt(q.window, 10)
}

// opened is what a quota is worth in the window of an instant: in a later one than the stored
// one it regains n for each, up to n.
func (q *storedQuota) opened(window int64) int64 {
	if window <= q.window {
		return q.tokens
	}
	return min(q.n, q.tokens+q.n*(window-q.window))
}

// ordinal is the window of a unit in a zone at an instant, in Unix ms.
func ordinal(unit, zone string, at int64) int64 {
	const hour, day = 3_600_000, 24 * 3_600_000
	if unit == "hour" {
		return at / hour
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	year, month, date := time.UnixMilli(at).In(location).Date()
	if unit == "month" {
		return int64(year)*12 + int64(month) - 1
	}
	days := time.Date(year, month, date, 0, 0, 0, 0, time.UTC).UnixMilli() / day
	if unit == "week" {
		return (days + 3) / 7
	}
	return days
}

// at is the ordinal of the windows of a quota at an instant.
func (q *storedQuota) at(ms int64) int64 { return ordinal(q.unit, q.zone, ms) }
