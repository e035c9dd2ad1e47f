package schema

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/calendar"
)

// An alert is an item in the partition of its bucket. A follower of the stream puts it if it is absent, so several
// followers decide it once. Before its delivery GSI3 lists it outside of every namespace, because the stream covers the
// whole table. After the delivery GSI3 lists it by the day of the decision.
const (
	skAlertPrefix = "#WARNED#"
	openAlerts    = "ALERTS#open#"

	attrAlertLimit   = "a_limit"
	attrAlertPercent = "a_percent"
	attrAlertUsed    = "a_used"
	attrAlertAmount  = "a_amount"
	attrAlertUnit    = "a_unit"
	attrAlertWindows = "a_windows"
	attrAlertWindow  = "a_window"
	attrAlertAt      = "a_at"
	attrAlertSent    = "a_sent"
	attrAlertFailed  = "a_failed"
	attrAlertShadow  = "a_shadow"
)

// AlertShards is the number of partitions of each list of alerts.
const AlertShards = 4

// AlertKept is the time for which an alert is kept after the end of its window.
const AlertKept = 30 * 24 * time.Hour

// Alert is a threshold of a quota that its use has reached, in a window of the calendar.
type Alert struct {
	Keys                    Keys
	Entity, Resource, Limit string
	// Percent is the threshold.
	Percent int
	// Shadow means that the call of a percentage of 100 was not denied, because the quota is in shadow.
	Shadow bool
	// Amount is the quota with its grants in the window, and Used the used or reserved part of it, in millitokens, at the
	// decision.
	Amount, Used int64
	// Unit is "usd" for money.
	Unit string
	// Windows are the windows of the quota, and Window is the ordinal of the one.
	Windows calendar.Windows
	Window  int64
	// Bucket is the incarnation of the bucket in hexadecimal digits.
	Bucket string
	// At is the time of the decision, and Sent that of the delivery. Failed is the time at which the delivery was given
	// up. Sent and Failed are zero before.
	At, Sent, Failed time.Time
}

// Start returns the start of the alert's window of the calendar.
func (a *Alert) Start() time.Time { return time.UnixMilli(a.Windows.Start(a.Window)) }

// End returns the end of the window, which is the start of the next one.
func (a *Alert) End() time.Time { return time.UnixMilli(a.Windows.Start(a.Window + 1)) }

// SameWindow reports whether two alerts have the same limit, window, amount and incarnation of the bucket. It
// compares no thresholds.
func (a *Alert) SameWindow(b *Alert) bool {
	return a.Limit == b.Limit && a.Window == b.Window && a.Windows == b.Windows && a.Amount == b.Amount && a.Bucket == b.Bucket
}

// Key returns the key of the alert's item, in the partition of its entity. Alerts with the same resource,
// limit, window, threshold, amount and incarnation have the same key.
func (a *Alert) Key() Key {
	percent := fmt.Sprintf("%03d", a.Percent)
	if a.Shadow {
		percent += "s"
	}
	return Key{a.Keys.Entity(a.Entity), fmt.Sprintf("%s%s#%s#%s%d#%s#%d#%s", skAlertPrefix, a.Resource, a.Limit, a.Windows.Unit(), a.Window, percent, a.Amount, a.Bucket)}
}

// ShownAlert is an alert in the form of users. aggregator.Alert describes its fields. Each is converted into the
// other, so both have the same fields.
type ShownAlert struct {
	ID                                 string
	Namespace, Entity, Resource, Limit string
	Percent                            int
	Shadow                             bool
	Amount, Used                       int64
	Unit                               string
	Window                             string
	Start, End                         time.Time
	At                                 time.Time
	Sent, Failed                       time.Time
}

// Shown returns the alert in the form of users, with times in UTC and amounts in millitokens. Its ID is made of
// the parts of its key.
func (a *Alert) Shown() ShownAlert {
	key := a.Key()
	return ShownAlert{
		ID: key.PK + " " + key.SK, Namespace: a.Keys.Name(), Entity: a.Entity, Resource: a.Resource, Limit: a.Limit, Percent: a.Percent, Shadow: a.Shadow,
		Amount: a.Amount, Used: a.Used, Unit: a.Unit, Window: a.Windows.Unit().String(), Start: a.Start().UTC(), End: a.End().UTC(), At: a.At.UTC(),
		Sent: a.Sent.UTC(), Failed: a.Failed.UTC(),
	}
}

// IsAlert reports whether a key is that of an alert.
func IsAlert(key Key) bool { return strings.HasPrefix(key.SK, skAlertPrefix) }

// shard returns the shard of an alert's key in each list of alerts, in decimal digits: 0 to AlertShards-1.
func (k Key) shard() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.PK + k.SK)) // never fails
	return strconv.Itoa(int(h.Sum32() % AlertShards))
}

// OpenAlerts returns the partition key of one shard of the GSI3 list of alerts neither delivered nor given up.
func OpenAlerts(shard int) string { return openAlerts + strconv.Itoa(shard) }

// alertTime is the form of times in alerts. Texts sort as the times.
const alertTime = "2006-01-02T15:04:05.000Z"

// Put returns the statement that stores the alert, and fails to apply if the alert exists. The item is listed
// among the open alerts and expires AlertKept after the end of the window.
func (a *Alert) Put() Statement {
	b, key, at := newStatementBuilder(), a.Key(), a.At.UTC().Format(alertTime)
	b.setValue(attrEntity, String(a.Entity))
	b.setValue(attrResource, String(a.Resource))
	b.setValue(attrAlertLimit, String(a.Limit))
	b.setValue(attrAlertPercent, Number(int64(a.Percent)))
	b.setValue(attrAlertUsed, Number(a.Used))
	b.setValue(attrAlertAmount, Number(a.Amount))
	b.setValue(attrAlertWindows, String(a.Windows.String()))
	b.setValue(attrAlertWindow, Number(a.Window))
	if a.Unit != "" {
		b.setValue(attrAlertUnit, String(a.Unit))
	}
	if a.Shadow {
		b.setValue(attrAlertShadow, Number(1))
	}
	b.setValue(attrAlertAt, String(at))
	b.setValue(GSI3PK, String(openAlerts+key.shard()))
	b.setValue(GSI3SK, String(at))
	b.setValue(TTL, Number(a.End().Add(AlertKept).Unix()))
	b.requireAbsent(PK)
	return b.build()
}

// IsOpen reports whether the alert is neither delivered nor given up.
func (a *Alert) IsOpen() bool { return a.Sent.IsZero() && a.Failed.IsZero() }

// Close returns the statement that marks an open alert as sent at a time or, if sent is false, as given up. It
// moves the alert from the list of open alerts to that of its day. It fails to apply if the alert is not open.
func (a *Alert) Close(at time.Time, sent bool) Statement {
	b := newStatementBuilder()
	attr := attrAlertFailed
	if sent {
		attr = attrAlertSent
	}
	b.setValue(attr, String(at.UTC().Format(alertTime)))
	b.setValue(GSI3PK, String(ClosedAlerts(a.Keys.prefix, a.At, a.Key().shard())))
	b.requireExists(attrAlertAt)
	b.requireAbsent(attrAlertSent)
	b.requireAbsent(attrAlertFailed)
	return b.build()
}

// DecodeAlert reads an alert. It returns an error for any other item, and for an alert that cannot be read.
func DecodeAlert(item Item) (a Alert, err error) {
	key := KeyOf(item)
	keys, kind, entity, ok := splitPartition(key.PK)
	if !ok || kind != "ENTITY#" || !IsAlert(key) {
		return a, fmt.Errorf("item %q, %q is no alert", key.PK, key.SK)
	}
	d := decoder{item: item}
	a = Alert{Keys: keys, Entity: entity, Resource: Text(item, attrResource), Limit: Text(item, attrAlertLimit), Unit: Text(item, attrAlertUnit)}
	percent, _ := d.number(attrAlertPercent)
	a.Percent = int(percent)
	shadow, _ := d.number(attrAlertShadow)
	a.Shadow = shadow != 0
	a.Used, _ = d.number(attrAlertUsed)
	a.Amount, _ = d.number(attrAlertAmount)
	a.Window, _ = d.number(attrAlertWindow)
	if a.Windows, err = calendar.Parse(Text(item, attrAlertWindows)); err != nil {
		return a, unreadable(item, err)
	}
	a.Bucket = key.SK[strings.LastIndexByte(key.SK, '#')+1:]
	for attr, to := range map[string]*time.Time{attrAlertAt: &a.At, attrAlertSent: &a.Sent, attrAlertFailed: &a.Failed} {
		if text := Text(item, attr); text != "" || attr == attrAlertAt {
			if *to, err = time.Parse(alertTime, text); err != nil {
				return a, unreadable(item, err)
			}
		}
	}
	if d.err != nil {
		return a, unreadable(item, d.err)
	}
	return a, nil
}

// AlertedQuota is a quota of a bucket with alerts, in an image.
type AlertedQuota struct {
	Limit string
	// Percents are the thresholds, in order.
	Percents []int
	// Windows, Window, Amount, Used and Unit are those of Alert.
	Windows      calendar.Windows
	Window       int64
	Amount, Used int64
	Unit         string
	// Denied means that a denial by the quota is marked in this window, with this amount.
	Denied bool
	// DeniedInShadow means that no denial is marked, but one that did not happen because the quota is in shadow.
	DeniedInShadow bool
}

// HasAlerts reports whether a bucket has an attribute of alerts of a limit. It does not read them.
func HasAlerts(item Item) bool {
	for attr := range item {
		if strings.HasPrefix(attr, byModelPrefix) && strings.HasSuffix(attr, alertSign) {
			return true
		}
	}
	return false
}

// AlertedQuotas returns the quotas with alerts in a bucket, in the order of their names. It leaves out those that cannot
// be read.
func AlertedQuotas(item Item) (quotas []AlertedQuota) {
	found, _ := extrasIn(item)
	for _, text := range found.Alerts {
		limit, percent, _ := strings.Cut(text, alertSign)
		a, d := attrsOf(limit, true), decoder{item: item}
		q := AlertedQuota{Limit: limit, Percents: percentagesIn(percent).List(), Unit: Text(item, a.unit)}
		tokens, hasTokens := d.number(a.tokens)
		burst, hasBurst := d.number(a.burst)
		window, hasWindow := d.number(a.window)
		windows, err := calendar.Parse(Text(item, a.windows))
		if d.err != nil || err != nil || !hasTokens || !hasBurst || !hasWindow || burst <= 0 || burst > MaxTokens*1000 {
			continue
		}
		q.Windows, q.Window = windows, window
		granted, _ := d.number(grantedAttr(limit, window))
		q.Amount = burst + granted
		q.Used = q.Amount - tokens
		q.Denied = hasDenial(item, limit, window, burst, false)
		q.DeniedInShadow = !q.Denied && hasDenial(item, limit, window, burst, true)
		quotas = append(quotas, q)
	}
	return quotas
}

// Reached returns the thresholds, in percent and in order, that the use has reached; nil if there are none. The
// threshold 100 is reached only if a denial is marked.
func (q *AlertedQuota) Reached() (percents []int) {
	for _, p := range q.Percents {
		if p == WholeQuota && (q.Denied || q.DeniedInShadow) || p < WholeQuota && q.Used >= partOf(q.Amount, p) {
			percents = append(percents, p)
		}
	}
	return percents
}
