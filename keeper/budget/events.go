package budget

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// view is the state of looking for one app's events.
type view struct {
	mu      sync.Mutex
	version int64 // last seen version of the board
	config  int64 // last seen version of the configuration
	day     string
	done    map[string]bool      // delivered events by id
	later   map[string]time.Time // events that another process has claimed, with the time to look again
	sticky  stickyView

	near atomic.Pointer[nearness] // readable without the lock; nil before the first query
}

// viewFor returns the cached state of looking for the app's events in this process. If none is cached, it
// caches an empty one, which may evict another app's.
func (s *standing) viewFor(t *tenant) *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := t.org + "/" + t.app
	v, ok := s.views.Get(key)
	if !ok {
		v = &view{}
		s.views.Add(key, v)
	}
	return v
}

// peekView returns the cached state of looking for the app's events, or a new empty one that it does not cache.
// It evicts no other app's and does not count as a use.
func (s *standing) peekView(t *tenant) *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.views.Peek(t.org + "/" + t.app); ok {
		return v
	}
	return &view{}
}

// findEvents records how near the app's quotas are, for Stats, updates its sticky record and delivers events of
// reached thresholds. It does so once for each version of the board and the configuration. It logs its errors,
// which never fail the call.
func (s *standing) findEvents(ctx context.Context, t *tenant, b *ledger.Board, version int64, now time.Time) {
	s.findEventsIn(ctx, s.viewFor(t), t, b, version, now)
}

// findEventsIn records in v how near the quotas are, updates the app's sticky record and delivers events of
// reached thresholds. It does nothing if v has seen this version and configuration, or while another call holds
// v's lock. It logs errors.
func (s *standing) findEventsIn(ctx context.Context, v *view, t *tenant, b *ledger.Board, version int64, now time.Time) {
	if !v.mu.TryLock() {
		return // another call of this app does it
	}
	defer v.mu.Unlock()
	day := t.calendar.Day(now)
	if v.day != day {
		v.day, v.version = day, 0
		v.done, v.later, v.sticky = map[string]bool{}, map[string]time.Time{}, stickyView{}
	}
	if v.version >= version && v.config == t.version {
		return
	}
	v.version, v.config = version, t.version
	out := s.computeOutlook(t, b, now, true)
	v.near.Store(out.computeNearness())
	if s.opts.OnEvent == nil && !t.config.Sticky {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledger.WriteTimeout)
	defer cancel()
	if t.config.Sticky && t.app != "" {
		if err := guard.Apart(func() error { return s.moveSticky(ctx, t, v, out, now) }); err != nil {
			s.opts.Logger.WarnContext(ctx, "budget: sticky record", "app", t.app, "error", err)
		}
	}
	if s.opts.OnEvent == nil {
		return
	}
	for _, e := range thresholdsReached(t, out, now) {
		if err := guard.Apart(func() error { return s.deliverEvent(ctx, v, e, now) }); err != nil {
			s.opts.Logger.WarnContext(ctx, "budget: event", "id", e.ID, "error", err)
		}
	}
}

// thresholdsReached returns an event for each threshold that the spend of a label in out has reached, with
// amounts in micro-dollars. It leaves out labels without a quota. The same threshold of a day and quota always
// has the same id.
func thresholdsReached(t *tenant, out *outlook, now time.Time) []Event {
	var events []Event
	for _, l := range out.labels {
		for _, percent := range thresholds {
			if l.quota <= 0 || l.spend.Mul(100).Cmp(money.FromMicros(l.quota).Mul(percent)) < 0 {
				break
			}
			e := Event{
				Kind: EventThreshold, Org: t.org, Scope: out.scope, Day: out.day, Label: l.label,
				Percent: percent, QuotaMicros: l.quota, SpendMicros: l.spend.Micros(), At: now,
			}
			e.ID = fmt.Sprintf("%s#DAY#%s#%s#%03d#%d", out.scope, e.Day, l.label, percent, l.quota)
			events = append(events, e)
		}
	}
	return events
}

// deliverEvent claims an event in the store, calls Options.OnEvent, and marks the event as delivered in the
// store and in v. It does nothing if the event is delivered. Another process's claim it leaves alone for
// takeOverAfter.
func (s *standing) deliverEvent(ctx context.Context, v *view, e Event, now time.Time) error {
	if v.done[e.ID] || now.Before(v.later[e.ID]) {
		return nil
	}
	writer := store.NewID()
	err := store.Retry(ctx, func() error {
		return s.store.Put(ctx, s.store.Usage, e.encodeItem(writer, now),
			"attribute_not_exists(#pk) OR (#d = :false AND #at <= :stale)",
			map[string]string{"#pk": "PK", "#d": "delivered", "#at": "claimed_at_ms"},
			store.Item{":false": store.Bool(false), ":stale": store.Int(now.Add(-takeOverAfter).UnixMilli())})
	})
	if store.Diagnose(err) == ddb.Refused {
		var d store.Decoder
		image := store.RefusedItem(err)
		switch {
		case d.String(image, store.AttrWriter) == writer: // own claim: the answer was lost
		case d.Bool(image, "delivered"):
			v.done[e.ID] = true
			return nil
		default:
			v.later[e.ID] = time.UnixMilli(d.Int(image, "claimed_at_ms")).Add(takeOverAfter)
			return nil
		}
	} else if err != nil {
		return err
	}
	s.opts.OnEvent(ctx, e)
	v.done[e.ID] = true
	return s.markDelivered(ctx, e, writer)
}

// markDelivered stores that e is delivered, so that no process delivers it again. If another process has taken
// over the claim of writer, it does nothing and returns nil.
func (s *standing) markDelivered(ctx context.Context, e Event, writer string) error {
	err := store.Retry(ctx, func() error {
		_, err := s.store.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.store.Usage, Key: e.itemKey().Attributes(), UpdateExpression: aws.String("SET #d = :true"),
			ConditionExpression:       aws.String("#w = :w"),
			ExpressionAttributeNames:  map[string]string{"#d": "delivered", "#w": store.AttrWriter},
			ExpressionAttributeValues: store.Item{":true": store.Bool(true), ":w": store.String(writer)},
		}, store.Once)
		return err
	})
	if store.Diagnose(err) == ddb.Refused { // taken over meanwhile, so delivered twice
		return nil
	}
	return err
}

// listEvents returns an iterator over the stored events of the app's scope, ordered by day, delivered or not.
// It reads all before it yields the first. An error is the only element.
func (s *standing) listEvents(ctx context.Context, org, app string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		scope, err := s.scopeNow(ctx, org, app)
		if err != nil {
			yield(Event{}, err)
			return
		}
		events, _, err := s.readEvents(ctx, scope)
		if err != nil {
			yield(Event{}, wrapFailure("Events", err))
			return
		}
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// readEvents reads all stored events of a scope, ordered by day. delivered is true for the id of each event
// that was delivered, and false for the others. A malformed event is an error.
func (s *standing) readEvents(ctx context.Context, scope string) (events []Event, delivered map[string]bool, err error) {
	delivered = map[string]bool{}
	err = s.store.Query(ctx, s.store.Usage, eventPK(scope), "0", "~", func(item store.Item) error {
		var d store.Decoder
		e, err := decodeEvent(item)
		events = append(events, e)
		delivered[e.ID] = d.Bool(item, "delivered")
		return err
	})
	return events, delivered, err
}
