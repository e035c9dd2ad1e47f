// Package spend makes a table of organisations, teams and keys that spent money for days. The tests of pages use it,
// in this module and in the command.
package spend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// World is a table with spend, and its clock.
type World struct {
	DB      *ddbmem.DB
	Repo    *dynalimit.Repository
	Admin   *admin.Admin
	Limiter *dynalimit.RateLimiter
	Reader  *aggregator.Reader

	t         testing.TB
	processor *aggregator.Processor
	closer    *aggregator.Closer
	stream    *string
	after     map[string]string
	mu        sync.Mutex
	now       time.Time
}

// Hostile is a name that a page must show as text.
const Hostile = `<script>alert("x")</script>`

// Models are the called models, all in the group "all".
var Models = []string{"gpt-4.1", "gpt-4.1-mini", "claude-sonnet-4", "text-embedding-3-large"}

// orgs are the organisations with their teams, and teamKeys the keys of each team with their plans.
var orgs = []struct {
	id, name   string
	day, month float64
	teams      [][2]string
}{
	{"acme", "Acme Corporation", 150, 2400, [][2]string{{"growth", "Growth"}, {"platform", "Platform"}, {"search", "Search"}, {"support", "Customer support"}}},
	{"globex", "Globex", 80, 1150, [][2]string{{"it", "Internal IT"}, {"research", "Research"}, {"risk", "Risk"}, {"trading", "Trading desk"}}},
	{"initech", "Initech GmbH", 30, 600, [][2]string{{"billing", "Billing"}, {"mobile", "Mobile"}, {"reports", "TPS reports"}, {"sandbox", "Sandbox"}}},
}

var teamKeys = []struct{ id, name, plan string }{
	{"prod", "Production service", "pro"}, {"batch", "Nightly batch", "batch"}, {"ann", "Ann Lee", "pro"}, {"joao", "João Pereira", "free"}, {"ci", "CI pipeline", "free"},
}

// New returns a world with the spend of the given number of days before at, and of that day up to the hour of
// at. Its clock then shows at. An error fails the test.
func New(t testing.TB, at time.Time, days int) *World {
	t.Helper()
	w := &World{t: t, now: at.UTC().Truncate(24*time.Hour).AddDate(0, 0, -days).Add(time.Minute), after: map[string]string{}}
	ctx := t.Context()
	w.DB = ddbmem.New(ddbmem.WithClock(w.Now))
	t.Cleanup(w.DB.Close)
	var err error
	w.Repo, err = dynalimit.NewRepository(w.DB.Client(), "limits", &dynalimit.RepositoryOptions{Now: w.Now, Principal: "ops@dynalimit.example", RequestTimeout: time.Minute})
	require.NoError(t, err)
	require.NoError(t, w.Repo.CreateTable(ctx))
	w.Admin = admin.New(w.Repo)
	w.configureLimits(ctx)
	w.Limiter, err = dynalimit.New(w.Repo, &dynalimit.Options{Timeout: time.Minute}) // a busy machine answers late
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Limiter.Close(context.WithoutCancel(ctx)) })
	w.processor, err = aggregator.New(w.DB.Client(), "limits", &aggregator.Options{Now: w.Now})
	require.NoError(t, err)
	w.closer, err = aggregator.NewCloser(w.DB.Client(), "limits", &aggregator.CloserOptions{Now: w.Now})
	require.NoError(t, err)
	w.Reader, err = aggregator.NewReader(w.DB.Client(), "limits", &aggregator.ReaderOptions{Now: w.Now, Began: w.now})
	require.NoError(t, err)
	table, err := w.DB.Client().DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String("limits")})
	require.NoError(t, err)
	w.stream = table.Table.LatestStreamArn
	_, err = w.closer.CloseDue(ctx)
	require.NoError(t, err)
	w.spendUntil(ctx, at.UTC())
	return w
}

// Now returns the world's time.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// SetTime sets the world's time.
func (w *World) SetTime(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = now
}

// configureLimits sets the limits and creates the organisations, teams and keys. An error fails the test.
func (w *World) configureLimits(ctx context.Context) {
	money := func(day float64) dynalimit.Limit {
		return dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(day), "").WithAlerts(50, 80, 100)
	}
	for _, model := range Models {
		_, err := w.Admin.Limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: model}, admin.LimitConfig{Groups: []string{"all"}})
		require.NoError(w.t, err)
	}
	set := func(at admin.Scope, limits ...dynalimit.Limit) {
		require.NoError(w.t, w.Admin.Limits.Set(ctx, at, limits), at)
	}
	set(admin.Scope{Everyone: true, Resource: "all"}, dynalimit.PerMinute("rpm", 60), money(2))
	set(admin.Scope{Plan: "pro", Resource: "all"}, dynalimit.PerMinute("rpm", 120), dynalimit.PerMinute("tpm", 3_000_000), money(20))
	set(admin.Scope{Plan: "batch", Resource: "all"}, dynalimit.PerMinute("rpm", 300), dynalimit.PerMinute("tpm", 10_000_000), money(30))
	set(admin.Scope{Plan: "free", Resource: "all"}, dynalimit.PerMinute("rpm", 10), dynalimit.PerMinute("tpm", 600_000), money(5))
	var setups []admin.EntitySetup
	for _, o := range orgs {
		setups = append(setups, admin.EntitySetup{
			Entity: admin.Entity{ID: o.id, Name: o.name},
			Limits: map[string][]dynalimit.Limit{"all": {money(o.day), dynalimit.MonthlyMoneyQuota("usd-month", dynalimit.Dollars(o.month), "")}},
		})
		for _, team := range o.teams {
			setups = append(setups, admin.EntitySetup{
				Entity: admin.Entity{ID: o.id + "." + team[0], Name: team[1], ParentID: o.id},
				Limits: map[string][]dynalimit.Limit{"all": {dynalimit.PerMinute("tpm", 20_000_000), money(o.day / 2.4)}},
			})
			for _, key := range teamKeys {
				name := key.name
				if o.id == "initech" && team[0] == "sandbox" && key.id == "ann" {
					name = Hostile
				}
				setups = append(setups, admin.EntitySetup{Entity: admin.Entity{ID: o.id + "." + team[0] + "." + key.id, Name: name, ParentID: o.id + "." + team[0], Plan: key.plan}})
			}
		}
	}
	errs, err := w.Admin.Entities.CreateMany(ctx, setups)
	require.NoError(w.t, err)
	for _, err := range errs {
		require.NoError(w.t, err)
	}
	mira := admin.New(w.Repo.As("mira@acme.example")).Limits
	_, err = mira.SetConfig(ctx, admin.Scope{Entity: "acme.search.prod", Resource: "all"}, admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 600), money(40)}, Only: true})
	require.NoError(w.t, err)
	require.NoError(w.t, admin.New(w.Repo.As("oncall@dynalimit.example")).Limits.SetBlocked(ctx, admin.Scope{Entity: "initech.sandbox.ci"}, true))
}

// spendUntil makes random but repeatable calls from now to the given time, adds the stream to usage and closes
// the hours. The last hour stays open. It sets the world's time to the given one; an error fails the test.
func (w *World) spendUntil(ctx context.Context, to time.Time) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same world each time
	for hour := w.Now().Truncate(time.Hour); hour.Before(to); hour = hour.Add(time.Hour) {
		calls := 0
		if h := hour.Hour(); h >= 7 && h <= 19 && h%3 == 1 {
			calls = 9
			if day := hour.Weekday(); day == time.Saturday || day == time.Sunday {
				calls = 3
			}
		}
		if hour.Add(time.Hour).After(to) {
			calls = 6
		}
		for i := range calls {
			w.SetTime(hour.Add(time.Duration(i+2) * 3 * time.Minute))
			if w.Now().After(to) {
				break
			}
			o := orgs[[]int{0, 0, 0, 1, 1, 2}[random.IntN(6)]]
			team, key := o.teams[random.IntN(4)], teamKeys[[]int{0, 0, 0, 1, 1, 2, 3, 4}[random.IntN(8)]]
			cost := []float64{4, 3, 1, .4, .3}[indexOfKey(key.id)] * (0.5 + random.Float64()) * o.day / 60
			w.makeCall(ctx, o.id+"."+team[0]+"."+key.id, Models[random.IntN(4)], cost)
		}
		if hour.Hour()%6 == 0 || calls > 0 {
			if w.SetTime(hour.Add(58 * time.Minute)); w.Now().After(to) {
				w.SetTime(to)
			}
			w.FollowStream(ctx)
		}
		if next := hour.Add(76 * time.Minute); hour.Hour()%3 == 2 && next.Before(to) {
			w.SetTime(next)
			w.CloseHours(ctx)
		}
	}
	w.SetTime(to)
	w.FollowStream(ctx)
	w.CloseHours(ctx)
}

// ListKeys returns the ids of all keys that call, each as key, team and organisation.
func ListKeys() (keys [][3]string) {
	for _, o := range orgs {
		for _, team := range o.teams {
			for _, key := range teamKeys {
				keys = append(keys, [3]string{o.id + "." + team[0] + "." + key.id, o.id + "." + team[0], o.id})
			}
		}
	}
	return keys
}

// indexOfKey returns the index of a key in teamKeys; 0 for an unknown one.
func indexOfKey(id string) int {
	for i, k := range teamKeys {
		if k.id == id {
			return i
		}
	}
	return 0
}

// makeCall acquires an amount of dollars, some tokens and one request, and settles the lease. A denied or
// blocked call takes nothing; any other error fails the test.
func (w *World) makeCall(ctx context.Context, entity, model string, cost float64) {
	amounts := dynalimit.Amounts{"usd": dynalimit.Dollars(cost), "usd-month": dynalimit.Dollars(cost), "tpm": int64(cost * 40_000), "rpm": 1}
	if entity == "acme.search.prod" { // its own list has no tpm
		delete(amounts, "tpm")
	}
	lease, err := w.Limiter.Acquire(ctx, entity, model, amounts)
	if !errors.Is(err, dynalimit.ErrLimitExceeded) && !errors.Is(err, dynalimit.ErrBlocked) {
		require.NoError(w.t, err, entity)
		require.NoError(w.t, lease.Settle(ctx, nil))
	}
}

// CallNow makes a call of an entity now that costs this amount of dollars.
func (w *World) CallNow(entity string, cost float64) {
	w.makeCall(w.t.Context(), entity, Models[0], cost)
}

// FollowStream adds the records of the stream since its last call to usage, and remembers the last ones. An
// error fails the test.
func (w *World) FollowStream(ctx context.Context) {
	streams := w.DB.StreamsClient()
	described, err := streams.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: w.stream})
	require.NoError(w.t, err)
	for _, shard := range described.StreamDescription.Shards {
		id := aws.ToString(shard.ShardId)
		in := &dynamodbstreams.GetShardIteratorInput{StreamArn: w.stream, ShardId: shard.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon}
		if last := w.after[id]; last != "" {
			in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber, &last
		}
		at, err := streams.GetShardIterator(ctx, in)
		require.NoError(w.t, err)
		for next := at.ShardIterator; next != nil; {
			out, err := streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: next})
			require.NoError(w.t, err)
			if len(out.Records) == 0 {
				break
			}
			var records []aggregator.Record
			for _, r := range out.Records {
				record, err := aggregator.FromStream(id, r)
				require.NoError(w.t, err)
				records, w.after[id] = append(records, record), record.Sequence
			}
			_, err = w.processor.Process(ctx, records)
			require.NoError(w.t, err)
			next = out.NextShardIterator
		}
	}
}

// CloseAlerts first stores one more alert, with a hostile limit and the longest id. It then marks all alerts
// but the newest three as delivered two minutes after their decision, or every ninth as given up. It returns
// the number of all stored alerts.
func (w *World) CloseAlerts() int {
	ctx := w.t.Context()
	out, err := w.DB.Client().Scan(ctx, &dynamodb.ScanInput{TableName: aws.String("limits")})
	require.NoError(w.t, err)
	var all []schema.Alert
	for _, item := range out.Items {
		if schema.IsAlert(schema.KeyOf(item)) {
			a, err := schema.DecodeAlert(item)
			require.NoError(w.t, err)
			all = append(all, a)
		}
	}
	hostile := all[0]
	hostile.Entity, hostile.Limit, hostile.At = "globex."+strings.Repeat("x", 249), Hostile, w.Now().Add(-30*time.Hour)
	w.updateItem(hostile.Key(), hostile.Put())
	all = append(all, hostile)
	slices.SortFunc(all, func(x, y schema.Alert) int {
		return cmp.Or(x.At.Compare(y.At), strings.Compare(x.Key().PK+x.Key().SK, y.Key().PK+y.Key().SK))
	})
	for i := range all[:max(0, len(all)-3)] {
		w.updateItem(all[i].Key(), all[i].Close(all[i].At.Add(2*time.Minute), i%9 != 4))
	}
	return len(all)
}

// updateItem updates an item of the table by a statement. An error fails the test.
func (w *World) updateItem(key schema.Key, st schema.Statement) {
	_, err := w.DB.Client().UpdateItem(w.t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("limits"), Key: key.Attributes(), UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
	})
	require.NoError(w.t, err)
}

// CloseHours closes the due hours of usage. An error fails the test.
func (w *World) CloseHours(ctx context.Context) {
	_, err := w.closer.CloseDue(ctx)
	require.NoError(w.t, err)
}

// String names the world for logs.
func (w *World) String() string { return fmt.Sprintf("world at %s", w.Now().Format(time.RFC3339)) }
