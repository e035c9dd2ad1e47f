package legacy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

const (
	// mostPasses is how often the table is looked through before the items that keep
	// appearing are taken for those of a writer that lives.
	mostPasses = 8
	// atOnce is how many buckets and configurations are turned at a time.
	atOnce = 8
	// pageItems is the number of items in one scan: few enough to be answered in time,
	// because a request that takes too long looks like a table that does not answer.
	pageItems = 500
	// mostNamed is how many malformed items a report names.
	mostNamed = 20

	opScan = "look through the table"
)

// ErrWriters means that items of the older layout keep appearing.
var ErrWriters = errors.New("items of the older layout keep appearing: stop their writers, and migrate again")

// ErrMalformed means that some items of the older layout cannot be understood.
var ErrMalformed = errors.New("items of the older layout cannot be read: correct or delete them, and migrate again")

// Report is the result of a migration, as admin.MigrateReport documents it.
type Report struct {
	DryRun, Complete                                         bool
	Passes                                                   int
	Scanned                                                  int64
	Buckets, Configs                                         int
	Found, Turned, Superseded, Elsewhere, Listed, Unreadable int
	Malformed                                                []string
	Left                                                     int
	LastWrite                                                time.Time
}

// Migration turns all items of the older layout in a table, in all
// namespaces. It keeps no state but the table's: a killed run is run again.
type Migration struct {
	Turner *Turner
	DryRun bool
	// OnProgress receives the report after each page, on the goroutine that runs the
	// migration; it may be nil.
	OnProgress func(Report)

	mu     sync.Mutex
	report Report
}

// Run converts all items of the older layout: it scans the table again until a scan finds nothing, at most 8
// times. A dry run scans once and converts nothing. It fails with ErrMalformed or ErrWriters if items remain;
// the report has the progress, after an error too.
func (m *Migration) Run(ctx context.Context) (Report, error) {
	m.report = Report{DryRun: m.DryRun}
	for {
		m.report.Passes++
		before := m.report
		err := m.convertOnce(ctx)
		m.report.Left = m.report.Found - before.Found
		switch {
		case err != nil:
			return m.report, err
		case m.DryRun || m.report.Left == 0:
			return m.report, nil
		case m.report.Left == m.report.Unreadable-before.Unreadable:
			return m.report, fmt.Errorf("dynalimit: %w: %s", ErrMalformed, m.report.Malformed[0])
		case m.report.Passes == mostPasses:
			return m.report, fmt.Errorf("dynalimit: %w; the last was written at %s", ErrWriters, m.report.LastWrite.UTC().Format(time.RFC3339))
		}
	}
}

// convertOnce scans the table once, converts the groups of items that belong together, and adds entity records
// to the index of entities. A dry run only counts both. It converts atOnce groups at a time and returns the
// first error.
func (m *Migration) convertOnce(ctx context.Context) error {
	turning, turnCtx := guard.WithContext(ctx)
	turning.SetLimit(atOnce)
	var g group
	for item, err := range m.scanItems(turnCtx) {
		if err != nil {
			return cmp.Or(turning.Wait(), err) // the first ended turnCtx
		}
		of, ok := schema.LegacyOf(schema.KeyOf(item))
		if !ok {
			if err := m.listRecord(turnCtx, item); err != nil {
				return cmp.Or(turning.Wait(), err)
			}
			continue
		}
		if g.found > 0 && g.of.Composite() != of.Composite() {
			turning.Go(m.turnGroup(turnCtx, g))
			g = group{}
		}
		g.addItem(of, item)
	}
	if g.found > 0 {
		turning.Go(m.turnGroup(turnCtx, g))
	}
	err := turning.Wait()
	m.reportProgress(0)
	return err
}

// listRecord adds the record of an entity to the index of entities and counts it, unless it is listed. A dry
// run only counts it; any other item is ignored.
func (m *Migration) listRecord(ctx context.Context, item schema.Item) error {
	key, st, ok := schema.ListRecord(item)
	if !ok {
		return nil
	}
	if !m.DryRun {
		err := table.RetryThrottled(ctx, func() error { return m.Turner.Table.UpdateIf(ctx, "list the entity", key, st) })
		if err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.report.Listed++
	m.mu.Unlock()
	return nil
}

// scanItems scans the table for items that may be of the older layout, and for entity records that the index
// lacks. It reports the progress after each page. An error is the last element.
func (m *Migration) scanItems(ctx context.Context) iter.Seq2[schema.Item, error] {
	return func(yield func(schema.Item, error) bool) {
		in := m.scanInput()
		for {
			out, err := m.scanPage(ctx, in)
			if err != nil {
				yield(nil, err)
				return
			}
			if !table.YieldAll(out.Items, yield) {
				return
			}
			m.reportProgress(int64(out.ScannedCount))
			if len(out.LastEvaluatedKey) == 0 {
				return
			}
			in.ExclusiveStartKey = out.LastEvaluatedKey
		}
	}
}

// group is the items of a bucket, or of a configuration, in one pass.
type group struct {
	of        schema.Legacy
	found     int
	lastWrite int64
	malformed error
}

// addItem counts an item in the group and keeps the latest refill instant of a bucket, or the error of a
// malformed item. The last error replaces earlier ones. The argument of names the bucket or configuration.
func (g *group) addItem(of schema.Legacy, item schema.Item) {
	g.of = of
	g.found++
	var err error
	if of.IsBucket {
		var b schema.LegacyBucket
		b, err = schema.DecodeLegacyBucket(item)
		g.lastWrite = max(g.lastWrite, b.Refilled)
	} else {
		_, err = schema.DecodeLegacyLimit(item)
	}
	if err != nil {
		g.malformed = &MalformedError{err}
	}
}

// scanInput returns the request for the first page of items. Its filter selects items of the older layout and
// entity records that the index lacks.
func (m *Migration) scanInput() *dynamodb.ScanInput {
	meta, value := schema.UnlistedValue()
	return &dynamodb.ScanInput{
		TableName: &m.Turner.Table.Name, ConsistentRead: aws.Bool(true), Limit: aws.Int32(pageItems),
		FilterExpression:         aws.String("begins_with(#0, :0) OR begins_with(#0, :1) OR " + schema.UnlistedRecord),
		ExpressionAttributeNames: map[string]string{"#0": schema.SK},
		ExpressionAttributeValues: schema.Item{
			":0": schema.String(schema.LegacyBuckets), ":1": schema.String(schema.LegacyLimits), meta: value,
		},
	}
}

// scanPage reads a page of the table. It retries for long, because a busy table may throttle it.
func (m *Migration) scanPage(ctx context.Context, in *dynamodb.ScanInput) (out *dynamodb.ScanOutput, err error) {
	err = table.RetryThrottled(ctx, func() (err error) {
		out, err = m.Turner.Table.Client.Scan(ctx, in)
		return m.Turner.Table.Failure(opScan, err)
	})
	return out, err
}

// turnGroup returns a function that converts the items of a group, except in a dry run, and adds the result to
// the report. A malformed group is only reported, and its error is not returned.
func (m *Migration) turnGroup(ctx context.Context, g group) func() error {
	return func() error {
		var turned Turned
		err := g.malformed
		if err == nil && !m.DryRun {
			err = table.RetryThrottled(ctx, func() (err error) {
				turned, err = m.turnOwner(ctx, g.of)
				return err
			})
		}
		var malformed *MalformedError
		if err != nil && !errors.As(err, &malformed) {
			return err
		}
		m.reportGroup(g, turned, malformed)
		return nil
	}
}

// turnOwner converts the items of a group: a bucket, or the limits of a configuration.
func (m *Migration) turnOwner(ctx context.Context, of schema.Legacy) (Turned, error) {
	if of.IsBucket {
		return m.Turner.Bucket(ctx, of)
	}
	return m.Turner.Config(ctx, of)
}

// reportGroup adds the result of a group to the report. malformed is nil unless the group cannot be read. In
// a dry run all found items count as converted.
func (m *Migration) reportGroup(g group, turned Turned, malformed *MalformedError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.report
	r.Found += g.found
	if last := time.UnixMilli(g.lastWrite).UTC(); g.lastWrite > 0 && last.After(r.LastWrite) {
		r.LastWrite = last
	}
	if malformed != nil {
		r.Unreadable += g.found
		if len(r.Malformed) < mostNamed {
			r.Malformed = append(r.Malformed, malformed.Error())
		}
		return
	}
	if r.DryRun {
		turned.Limits = g.found
	}
	here := min(turned.Limits, g.found)
	r.Elsewhere += g.found - here
	switch {
	case turned.Superseded:
		r.Superseded += here
		return
	case here == 0:
		return
	case g.of.IsBucket:
		r.Buckets++
	default:
		r.Configs++
	}
	r.Turned += here
}

// reportProgress adds to the number of scanned items and calls OnProgress, without the lock.
func (m *Migration) reportProgress(scanned int64) {
	m.mu.Lock()
	m.report.Scanned += scanned
	far := m.report
	m.mu.Unlock()
	if m.OnProgress != nil {
		m.OnProgress(far)
	}
}
