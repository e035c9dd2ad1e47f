package alert

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// mostInMessage bounds the alerts of a message.
	mostInMessage = 100
	// messageEvery is the least time between the starts of two messages.
	messageEvery = 5 * time.Second
	// mostUnderWay bounds the messages that wait for an answer.
	mostUnderWay = 2
	// triedFor is the time from the decision of an alert on for which its delivery is tried.
	triedFor = 24 * time.Hour
)

// entry is an alert before its delivery, or before the mark of it.
type entry struct {
	alert schema.Alert
	tries int
	// after is the time before which it is not sent again.
	after time.Time
	// underWay means that a message with it waits for an answer.
	underWay bool
	// ended is the time of its delivery, or at which it was given up; zero before. sent says which.
	ended time.Time
	sent  bool
}

// isOpen reports whether the alert is in no message in flight, and neither sent nor given up.
func (e *entry) isOpen() bool { return !e.underWay && e.ended.IsZero() }

// queue has the alerts that are to be delivered, by their keys. It is not safe for concurrent use.
type queue struct {
	entries  map[schema.Key]*entry
	underWay int
	// next is the time before which no message begins.
	next time.Time
	// once means that each alert is tried once.
	once bool
}

// addAlert adds an alert to the queue, unless it has one with its key.
func (q *queue) addAlert(a schema.Alert) {
	if key := a.Key(); q.entries[key] == nil {
		q.entries[key] = &entry{alert: a}
	}
}

// quota identifies the alerts of a quota in a window.
type quota struct {
	pk, resource, limit string
	window              int64
}

// quotaOf returns the quota and window of an alert, which group alerts in messages.
func quotaOf(a *schema.Alert) quota {
	return quota{a.Keys.Entity(a.Entity), a.Resource, a.Limit, a.Window}
}

// takeMessage starts a message and returns its alerts, at most 100, marked as in flight. The highest thresholds
// and largest use come first, but a quota's lower thresholds before its highest. message is nil if none is due,
// two are in flight, or the last began less than 5 s ago; open is the number of waiting alerts.
func (q *queue) takeMessage(now time.Time) (message []*entry, open int) {
	if q.underWay >= mostUnderWay || now.Before(q.next) {
		return nil, 0
	}
	of := map[quota][]*entry{}
	for _, e := range q.entries {
		if e.isOpen() {
			open++
			of[quotaOf(&e.alert)] = append(of[quotaOf(&e.alert)], e)
		}
	}
	maps.DeleteFunc(of, func(_ quota, list []*entry) bool {
		return !slices.ContainsFunc(list, func(e *entry) bool { return !now.Before(e.after) })
	})
	groups := slices.Collect(maps.Values(of))
	for _, list := range groups {
		slices.SortFunc(list, func(a, b *entry) int {
			return cmp.Or(cmp.Compare(a.alert.Percent, b.alert.Percent), cmp.Compare(a.alert.Key().SK, b.alert.Key().SK))
		})
	}
	slices.SortFunc(groups, func(a, b []*entry) int {
		x, y := a[len(a)-1].alert, b[len(b)-1].alert
		return cmp.Or(cmp.Compare(y.Percent, x.Percent), cmp.Compare(y.Used, x.Used), cmp.Compare(x.Key().PK+x.Key().SK, y.Key().PK+y.Key().SK))
	})
	for _, list := range groups {
		message = append(message, list[:min(len(list), mostInMessage-len(message))]...)
	}
	if len(message) == 0 {
		return nil, open
	}
	for _, e := range message {
		e.underWay = true
	}
	q.underWay++
	q.next = now.Add(messageEvery)
	return message, open
}

// isTried reports whether nothing is left to do: each alert was tried, or must wait for longer than two messages are
// apart, no message is in flight, and no result is to be marked.
func (q *queue) isTried(now time.Time) bool {
	if q.underWay > 0 {
		return false
	}
	for _, e := range q.entries {
		if !e.ended.IsZero() || e.tries == 0 && q.next.Sub(now) <= messageEvery {
			return false
		}
	}
	return true
}

// idleTime returns the time until the queue next needs work, unless a message is answered: at most until look,
// at least 1 ms.
func (q *queue) idleTime(now, look time.Time) time.Duration {
	for _, e := range q.entries {
		switch {
		case !e.ended.IsZero():
			look = earlierOf(look, now.Add(markAgain))
		case e.isOpen() && q.underWay < mostUnderWay && e.after.Before(q.next):
			look = earlierOf(look, q.next)
		case e.isOpen() && q.underWay < mostUnderWay:
			look = earlierOf(look, e.after)
		}
	}
	return max(look.Sub(now), time.Millisecond)
}

// earlierOf returns the earlier of two instants.
func earlierOf(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// endMessage records the result of a message's delivery at now; err is nil for a success. After a failure each
// alert waits, or is given up if the error is lasting or the alert is a day old. With q.once it waits for a
// day; if the receiver demands a wait, no message begins before.
func (q *queue) endMessage(message []*entry, err error, now time.Time) {
	q.underWay--
	wait, lasting := retryOf(err)
	if wait > 0 && q.next.Before(now.Add(wait)) {
		q.next = now.Add(wait)
	}
	for _, e := range message {
		e.underWay = false
		e.tries++
		switch {
		case err == nil:
			e.ended, e.sent = now, true
		case lasting || !now.Before(e.alert.At.Add(triedFor)):
			e.ended = now
		default:
			e.after = now.Add(max(wait, min(messageEvery<<min(e.tries-1, 10), 10*time.Minute)))
			if q.once {
				e.after = now.Add(triedFor)
			}
		}
	}
}

// endedAlerts returns the alerts that were sent or given up and are not marked in the table yet.
func (q *queue) endedAlerts() (list []*entry) {
	for _, e := range q.entries {
		if !e.ended.IsZero() {
			list = append(list, e)
		}
	}
	return list
}

// removeAlert removes an alert from the queue, after it was marked in the table.
func (q *queue) removeAlert(e *entry) { delete(q.entries, e.alert.Key()) }

// messageOf returns a message with these alerts and no ID. open is the number of waiting alerts; Late is set if
// one is a day old.
func messageOf(list []*entry, open int, now time.Time) Message {
	m := Message{Open: open}
	for _, e := range list {
		a := aggregator.Alert(e.alert.Shown())
		m.Alerts = append(m.Alerts, a)
		m.Late = m.Late || !now.Before(a.At.Add(triedFor))
	}
	return m
}
