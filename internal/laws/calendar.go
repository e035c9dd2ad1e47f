package laws

import (
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// The judge computes the windows of quotas itself, from package time and the items. It uses no code of the
// library for that.

// storedQuota is a quota as stored in an item.
type storedQuota struct {
	n, tokens, window int64
	unit, zone        string
}

// quotaFields are the attributes of every quota.
var quotaFields = []string{"tk", "bx", "tc", "w", "z"}

// quotaIn decodes a quota of a bucket item, with amounts in millitokens; a missing number is 0. It returns nil
// if the item lacks the limit or has it as another kind.
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

// windowName names the quota's stored window by its unit and number, such as "hour 492000". It is "" for nil, a
// token bucket.
func (q *storedQuota) windowName() string {
	if q == nil {
		return ""
	}
	return q.unit + " " + strconv.FormatInt(q.window, 10)
}

// levelIn returns the millitokens left of a quota in a window, the stored one or a later one. Each later window
// adds n, up to n.
func (q *storedQuota) levelIn(window int64) int64 {
	if window <= q.window {
		return q.tokens
	}
	return min(q.n, q.tokens+q.n*(window-q.window))
}

// windowNumber returns the number of the window of a unit in a zone that contains an instant, in Unix ms.
// Windows that follow each other have consecutive numbers. It panics for an unknown zone.
func windowNumber(unit, zone string, at int64) int64 {
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

// windowAt returns the number of the quota's window that contains an instant, in Unix ms.
func (q *storedQuota) windowAt(ms int64) int64 { return windowNumber(q.unit, q.zone, ms) }
