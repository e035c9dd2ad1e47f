package aggregator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// Options configures a Processor. The zero value gives the defaults that the fields name.
type Options struct {
	// Retention is how long snapshots are kept after their hour, at most 100 years; a
	// negative one is for ever. The first process that writes usage stores it in the table, and
	// every other process obeys the stored one: see RetentionDiffers. Defaults to the stored one,
	// and to 90 days in a table that has none.
	Retention time.Duration
	// RetentionDiffers is called once if the table's retention differs from Retention.
	// Defaults to nil.
	RetentionDiffers func(stored Retention)
	// Writers bounds how many snapshots are written at once. Defaults to 16.
	Writers int
	// Now is the clock of alerts: their times of decision, and the age of ended windows. Defaults to time.Now.
	Now func() time.Time
}

// Processor adds records to snapshots. Make one with New. It is safe for concurrent use.
// But give each shard to one at a time: if several process different records of one item at once, the
// earlier record may count as repeated, and be missing then.
type Processor struct {
	client    DynamoDB
	table     string
	retention *tableRetention
	writers   int
	alerts    *alertStage
}

// New returns a Processor that writes snapshots into a table from records of its stream. It sends no request;
// nil opts are the defaults. It fails with a *ValidationError for bad input.
func New(client DynamoDB, table string, opts *Options) (*Processor, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	switch {
	case problem.IsNil(client):
		return nil, invalid("client", "is nil; give a client of DynamoDB")
	case table == "":
		return nil, invalid("table", "is empty; give the name of the table whose stream is read")
	case o.Writers < 0:
		return nil, invalid("options.Writers", "is %d; give at least 1, or 0 for the default", o.Writers)
	case o.Writers == 0:
		o.Writers = defaultWriters
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := checkRetention("options.Retention", o.Retention); err != nil {
		return nil, err
	}
	kept := newTableRetention(client, table, Retention{Hours: o.Retention}, o.RetentionDiffers)
	kept.hoursOnly = true
	return &Processor{client, table, kept, o.Writers, &alertStage{client: client, table: table, now: o.Now}}, nil
}

// Failure is a record that was not counted.
type Failure struct {
	// Record is the record.
	Record Record
	// Err is why.
	Err error
	// Unreadable means that the record can never be counted: processing it again is useless, unless
	// the item in Err is corrected before. Its amount is then a gap.
	Unreadable bool
}

// Result is the result of processed records. It is a plain value.
type Result struct {
	// Counted is the number of records added to snapshots now, Repeated the number of
	// known ones. Ignored is the number of records that are not about usage, that add nothing to another one of
	// the same call, or whose namespace is purged or in a purge.
	Counted, Repeated, Ignored int
	// Failures are the records that were not counted. Give the readable ones again.
	Failures []Failure
	// Gaps are the found gaps.
	Gaps []Gap
	// Alerts lists each alert that this call stored, or failed to store. After a lost answer an alert may be listed
	// again, or be missing. Deliverers send the stored ones.
	Alerts []AlertDecided
}

// Process adds records to the hourly snapshots of their entities and resources, each
// exactly once however often it is given. Give records of one item in the order of
// their sequence numbers: in one call, or in later ones. While
// DynamoDB is busy, or does not answer, writes are retried until ctx ends. Buckets are written in the
// order of their first records, so that a repeated batch that begins at its first failure
// gets further each time. Before the snapshots of a bucket it stores the alerts that the records show, each once; such
// buckets are written last.
//
// The error is that of ctx, or a *ValidationError without one; other errors are in the
// Result, which is valid in any case.
func (p *Processor) Process(ctx context.Context, records []Record) (Result, error) {
	var result Result
	if err := checkCalled(ctx, p != nil && p.client != nil, "processor", "New"); err != nil {
		return result, err
	}
	changes, sources := decodeRecords(records, &result)
	kept, unknown := schema.UsageRetention{}, error(nil)
	if len(changes) > 0 {
		kept, unknown = p.retention.current(ctx)
	}
	work := groupWork(records, usage.Folds(changes, kept.Hours), sources, p.alerts.dueAlerts(records, &result))
	purges := p.readPurges(ctx, work)
	var mu sync.Mutex
	var group guard.Group
	group.SetLimit(p.writers)
	for _, w := range work {
		of := purges[w.keys.Name()]
		if of.begun {
			continue
		}
		group.Go(func() error {
			one := p.addBucket(ctx, w, of.err, unknown, sources)
			mu.Lock()
			defer mu.Unlock()
			result.addResult(one)
			return nil
		})
	}
	_ = group.Wait()
	result.Ignored = len(records) - result.Counted - result.Repeated - len(result.Failures)
	return result, ctx.Err()
}

// addBucket stores the alerts of a bucket and then writes its folds, and returns the result. If failed is not
// nil, alerts and folds fail with it, unwritten; if unread is not nil, only the folds do. After a failed fold
// the later ones of its hour fail too.
func (p *Processor) addBucket(ctx context.Context, w bucketWork, failed, unread error, sources map[source]placed) (result Result) {
	if failed == nil && len(w.alerts) > 0 {
		result.Alerts, failed = p.alerts.decideAlerts(ctx, w.alerts)
	}
	if failed != nil {
		result.addFailures(w.records, failed)
	}
	failed = cmp.Or(failed, unread)
	done := outcome{err: failed}
	for i, f := range w.folds {
		if failed == nil && (done.err == nil || !f.Hour.Equal(w.folds[i-1].Hour)) { // no fold is written before its predecessor
			done = p.writeFold(ctx, f)
		}
		result.addOutcome(f, done, sources)
	}
	return result
}

// bucketWork is the work for one bucket: its folds, and the alerts to store before them. It has one of them at least.
type bucketWork struct {
	keys   schema.Keys
	folds  []usage.Fold
	alerts []schema.Alert
	// records are the records of a bucket without folds.
	records []Record
	// place is the index of the first record.
	place int
}

// groupWork returns the work for each bucket, its folds and the alerts to store before them, in the order of
// the first records. Buckets with alerts come after all others, because storing many alerts takes time. It
// removes from due the alerts of buckets that have folds.
func groupWork(records []Record, folds []usage.Fold, sources map[source]placed, due map[schema.Key][]schema.Alert) (work []bucketWork) {
	for _, of := range groupByBucket(folds) {
		first := of[0].Changes[0]
		work = append(work, bucketWork{keys: of[0].Keys, folds: of, alerts: due[first.Key], place: sources[source{first.Key, first.Seq}].place})
		delete(due, first.Key)
	}
	for key, alerts := range due {
		w := bucketWork{keys: alerts[0].Keys, alerts: alerts, place: -1}
		for i, r := range records {
			if schema.KeyOf(r.Keys) != key {
				continue
			}
			if w.records = append(w.records, r); w.place < 0 {
				w.place = i
			}
		}
		work = append(work, w)
	}
	slices.SortStableFunc(work, func(a, b bucketWork) int {
		return cmp.Or(cmp.Compare(min(len(a.alerts), 1), min(len(b.alerts), 1)), cmp.Compare(a.place, b.place))
	})
	return work
}

// source is the origin of a change.
type source struct {
	key schema.Key
	seq string
}

// placed is a record, and its place among the given ones.
type placed struct {
	Record
	place int
}

// errFollows is why a record was not counted that could be read: it comes again.
var errFollows = errors.New("aggregator: an earlier record of the same item cannot be read")

// decodeRecords returns the changes of usage in records, and the record of each change with its index. It adds
// unreadable records to result.Failures, and the later records of their items too, so that the caller sends
// these again.
func decodeRecords(records []Record, result *Result) ([]usage.Change, map[source]placed) {
	var changes []usage.Change
	sources := make(map[source]placed, len(records))
	bad := map[schema.Key]bool{}
	for i, r := range records {
		key := schema.KeyOf(r.Keys)
		c, ok, err := usage.Decode(key, r.Sequence, r.Time, r.Old, r.New)
		switch {
		case err != nil:
			bad[key] = true
			result.Failures = append(result.Failures, Failure{r, err, true})
		case bad[key]:
			result.Failures = append(result.Failures, Failure{Record: r, Err: errFollows})
		case ok:
			changes = append(changes, c)
			if s := (source{c.Key, c.Seq}); sources[s].Sequence == "" {
				sources[s] = placed{r, i}
			}
		}
	}
	return changes, sources
}

// groupByBucket groups folds, the additions to hourly snapshots, by bucket, so that those of one bucket are
// written in order. folds must be sorted by bucket.
func groupByBucket(folds []usage.Fold) [][]usage.Fold {
	var out [][]usage.Fold
	for i, f := range folds {
		if i > 0 && folds[i-1].Changes[0].Key == f.Changes[0].Key {
			out[len(out)-1] = append(out[len(out)-1], f)
			continue
		}
		out = append(out, []usage.Fold{f})
	}
	return out
}

// addOutcome adds the outcome of a fold to the result. If the outcome has an error, all changes become
// failures; otherwise the uncounted ones are Repeated. The map sources has the record of each change.
func (r *Result) addOutcome(f usage.Fold, done outcome, sources map[source]placed) {
	r.Counted += done.counted
	r.Gaps = append(r.Gaps, done.gaps...)
	if done.err == nil {
		r.Repeated += len(f.Changes) - done.counted
		return
	}
	for _, c := range f.Changes {
		r.Failures = append(r.Failures, Failure{Record: sources[source{c.Key, c.Seq}].Record, Err: done.err, Unreadable: done.unreadable})
	}
}

// addResult adds the counts, failures, gaps and alerts of other records to r. It does not add Ignored.
func (r *Result) addResult(other Result) {
	r.Counted, r.Repeated = r.Counted+other.Counted, r.Repeated+other.Repeated
	r.Failures, r.Gaps, r.Alerts = append(r.Failures, other.Failures...), append(r.Gaps, other.Gaps...), append(r.Alerts, other.Alerts...)
}

// addFailures adds records that failed with err to r.Failures, as readable ones.
func (r *Result) addFailures(records []Record, err error) {
	for _, one := range records {
		r.Failures = append(r.Failures, Failure{Record: one, Err: err})
	}
}

// gapsOf returns a Gap for each limit of a written fold with missing amounts or unseen ends. It leaves out
// counters by model and of passed amounts.
func gapsOf(f usage.Fold) []Gap {
	var gaps []Gap
	for _, s := range f.Spans {
		if schema.IsLimit(s.Limit) && !s.IsComplete() {
			gaps = append(gaps, Gap{
				Namespace: f.Keys.Name(), Entity: f.Entity, Resource: f.Resource, Limit: s.Limit, Hour: f.Hour, Missing: s.Missing, Unseen: s.Unseen,
			})
		}
	}
	return slices.Clip(gaps)
}
