package aggregator_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// office is a table with entities whose usage is closed, and the time there.
type office struct {
	t      *testing.T
	db     *ddbmem.DB
	repo   *dynalimit.Repository
	p      *aggregator.Processor
	closer *aggregator.Closer
	now    time.Time
	runs   func() time.Time // set where time goes on by itself
	seq    int
	mu     sync.Mutex
}

func newOffice(t *testing.T, now time.Time, opts *aggregator.CloserOptions) *office {
	t.Helper()
	o := &office{t: t, now: now}
	clock := func() time.Time {
		if o.runs != nil {
			return o.runs()
		}
		return o.now
	}
	o.db = ddbmem.New(ddbmem.WithClock(clock), ddbmem.WithLog())
	t.Cleanup(o.db.Close)
	var err error
	o.repo, err = dynalimit.NewRepository(o.db.Client(), "limits", &dynalimit.RepositoryOptions{Now: clock, Principal: "ann"})
	require.NoError(t, err)
	require.NoError(t, o.repo.CreateTable(t.Context()))
	o.p, err = aggregator.New(o.db.Client(), "limits", nil)
	require.NoError(t, err)
	if opts == nil {
		opts = &aggregator.CloserOptions{}
	}
	opts.Now = clock
	o.closer, err = aggregator.NewCloser(o.db.Client(), "limits", opts)
	require.NoError(t, err)
	return o
}

// used adds what a counter of an entity grew by to the hour of a time.
func (o *office) used(entity, resource string, at time.Time, old, now int64) {
	o.t.Helper()
	o.seq++
	r := record(o.seq, at, old, now)
	r.Keys["PK"] = &types.AttributeValueMemberS{Value: "ENTITY#" + entity}
	r.Keys["SK"] = &types.AttributeValueMemberS{Value: "#BUCKET#" + resource}
	assert.Equal(o.t, 1, process(o.t, o.p, r).Counted)
}

func (o *office) close(at time.Time) aggregator.Closed {
	o.t.Helper()
	o.now = at
	done, err := o.closer.CloseDue(o.t.Context())
	require.NoError(o.t, err)
	return done
}

// entity makes an entity, on a plan unless that is "".
func (o *office) entity(id, parent string, cascade bool, plan string) {
	o.t.Helper()
	require.NoError(o.t, admin.New(o.repo).Entities.Create(o.t.Context(), admin.Entity{ID: id, ParentID: parent, Cascade: cascade, Plan: plan}))
}

// summed are all items of sums in the table.
func summed(t *testing.T, db *ddbmem.DB) (items []map[string]types.AttributeValue) {
	t.Helper()
	pages := dynamodb.NewScanPaginator(db.Client(), &dynamodb.ScanInput{TableName: aws.String("limits")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, item := range page.Items {
			if item["summed"] != nil && !strings.HasSuffix(text(item, "PK"), "SYSTEM#") {
				items = append(items, item)
			}
		}
	}
	return items
}

// sums are all sums of the table as texts, by their keys.
func sums(t *testing.T, db *ddbmem.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, item := range summed(t, db) {
		var words []string
		for _, attr := range slices.Sorted(maps.Keys(item)) {
			if name, field, ok := cut(attr); ok {
				words = append(words, fmt.Sprintf("%s.%s=%d", name, field, number(t, item[attr])))
			}
		}
		words = append(words, fmt.Sprintf("of %d", number(t, item["entities"])))
		if item["final"].(*types.AttributeValueMemberBOOL).Value {
			words = append(words, "final")
		}
		all[text(item, "PK")+" "+text(item, "SK")] = strings.Join(words, " ")
	}
	return all
}

// TestHourIsClosed: once its grace is over, with sums of whoever counts in them, and made
// anew when it is final, with what came late.
func TestHourIsClosed(t *testing.T) {
	o := newOffice(t, noon, nil)
	require.NoError(t, admin.New(o.repo).Limits.Set(t.Context(), admin.Scope{Plan: "pro"}, limits(1)))
	o.entity("org", "", false, "pro")
	o.entity("team", "org", true, "")
	o.entity("key-1", "team", true, "pro")
	o.entity("key-2", "team", false, "pro")
	o.close(noon)
	o.used("org", "gpt-4", noon, -1, 1000) // one acquire, three levels
	o.passed("team", "gpt-4", noon, -1, 1000)
	o.passed("key-1", "gpt-4", noon, -1, 1000)
	o.used("key-2", "gpt-4", noon, -1, 70)
	o.used("gone", "gpt-4", noon, -1, 5)
	assert.Zero(t, o.close(noon.Add(74*time.Minute)).Hours-1, "the hour before")
	assert.Empty(t, sums(t, o.db))

	done := o.close(noon.Add(75 * time.Minute))
	assert.Equal(t, aggregator.Closed{Hours: 1, Snapshots: 5, Sums: 4}, done)
	want := map[string]string{
		"RESOURCE#gpt-4 #USAGE_HOUR#gpt-4#2026-03-29T12:00:00Z": "rpm.n=1075 of 3",
		"PLAN#pro #USAGE_HOUR#gpt-4#2026-03-29T12:00:00Z":       "rpm.n=1070 of 2",
		"ENTITY#team #CHILDREN_HOUR#gpt-4#2026-03-29T12:00:00Z": "rpm.n=1070 of 2",
		"ENTITY#org #CHILDREN_HOUR#gpt-4#2026-03-29T12:00:00Z":  "rpm.n=1000 of 1",
	}
	assert.Equal(t, want, sums(t, o.db))

	before := o.db.Meter()
	assert.Equal(t, aggregator.Closed{}, o.close(noon.Add(76*time.Minute)))
	idle := o.db.Meter().Sub(before)
	assert.LessOrEqual(t, idle.Requests(), int64(2), "the list of namespaces, and where the last one ended")
	assert.Zero(t, idle.WriteUnits())

	o.used("key-2", "gpt-4", noon.Add(59*time.Minute), 70, 100)
	require.NoError(t, admin.New(o.repo).Entities.Delete(t.Context(), "key-2"))
	o.close(noon.Add(26 * time.Hour))
	want = map[string]string{
		"RESOURCE#gpt-4 #USAGE_HOUR#gpt-4#2026-03-29T12:00:00Z": "rpm.n=1105 of 3 final",
		"PLAN#pro #USAGE_HOUR#gpt-4#2026-03-29T12:00:00Z":       "rpm.n=1100 of 2 final",
		"ENTITY#team #CHILDREN_HOUR#gpt-4#2026-03-29T12:00:00Z": "rpm.n=1100 of 2 final",
		"ENTITY#org #CHILDREN_HOUR#gpt-4#2026-03-29T12:00:00Z":  "rpm.n=1000 of 1 final",
	}
	got := sums(t, o.db)
	maps.DeleteFunc(got, func(k string, _ string) bool { return !strings.Contains(k, "_HOUR#") })
	assert.Equal(t, want, got, "where an entity stood stays")
}

// TestClosingCosts: one write unit a snapshot, once, one a sum, and three read units a
// snapshot.
func TestClosingCosts(t *testing.T) {
	const many = 60
	o := newOffice(t, noon, nil)
	for i := range many {
		o.entity(fmt.Sprint("key-", i), "", false, "")
	}
	o.close(noon.Add(75 * time.Minute))
	at := noon.Add(time.Hour)
	for i := range many {
		o.used(fmt.Sprint("key-", i), "gpt-4", at, -1, 5)
	}
	before := o.db.Meter()
	assert.Equal(t, aggregator.Closed{Hours: 1, Final: 1, Snapshots: many, Sums: 1}, o.close(at.Add(75*time.Minute)))
	spent := o.db.Meter().Sub(before)
	assert.LessOrEqual(t, spent.WriteUnits(), float64(many+4), "with the sum, the ranking and the cursor, twice")
	assert.LessOrEqual(t, spent.ReadUnits(), float64(3*many+30), "with the lists")
}
