package aggregator_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// march is the ordinal of the month of noon.
const march = 2026*12 + 2

// spentBucket is a bucket with a monthly quota of dollars, in whole cents.
type spentBucket struct {
	entity       string
	life         int // of the bucket; 0 for no bucket
	window       int64
	amount, used int64
	alerts       string
	counted      int64
	denied       string // the mark of a denial
	granted      int64  // in the window
}

// item returns the bucket as it is stored; nil without one.
func (b spentBucket) item() map[string]types.AttributeValue {
	if b.life == 0 {
		return nil
	}
	number := func(n int64) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
	}
	item := map[string]types.AttributeValue{
		"ci": &types.AttributeValueMemberB{Value: []byte(fmt.Sprint("life ", b.life))}, "q_usd_w": number(b.window), "q_usd_z": &types.AttributeValueMemberS{Value: "month UTC"},
		"q_usd_bx": number(b.amount), "q_usd_tk": number(b.amount + b.granted - b.used), "q_usd_tc": number(b.counted), "v_usd": &types.AttributeValueMemberS{Value: "usd"},
	}
	if b.alerts != "" {
		item["v_usd@"] = &types.AttributeValueMemberS{Value: b.alerts}
	}
	if b.granted != 0 {
		item[fmt.Sprint("v_usd@+", b.window)] = number(b.granted)
		item[fmt.Sprint("v_usd@+", b.window-1)] = number(7) // until a grant removes it
	}
	if b.denied != "" {
		item["v_usd@!"] = &types.AttributeValueMemberS{Value: b.denied}
	}
	return item
}

// reached returns the names of the alerts that a state of the bucket is at.
func (b spentBucket) reached() (names []string) {
	for text := range strings.SplitSeq(b.alerts, ",") {
		if p, _ := strconv.ParseInt(text, 10, 64); p > 0 && b.life > 0 && (p < 100 && b.used*100 >= p*(b.amount+b.granted) || p == 100 && b.denied == b.mark()) {
			names = append(names, fmt.Sprintf("%s %d %d %d%% of %d", b.entity, b.life, b.window, p, b.amount+b.granted))
		}
	}
	return names
}

// mark returns the mark of a denial by the quota.
func (b spentBucket) mark() string { return fmt.Sprint(b.window, " ", b.amount) }

// change returns the record of a change of a bucket.
func change(seq int, at time.Time, before, after spentBucket) aggregator.Record {
	r := record(seq, at, -1, -1)
	r.Keys = map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: "ENTITY#" + after.entity}, "SK": &types.AttributeValueMemberS{Value: "#BUCKET#all"}}
	r.EventID, r.Old, r.New = fmt.Sprint(after.entity, " ", seq), before.item(), after.item()
	return r
}

// storedAlerts returns the names of the stored alerts.
func storedAlerts(t require.TestingT, db *ddbmem.DB) (names []string) {
	out, err := db.Client().Scan(context.Background(), &dynamodb.ScanInput{TableName: aws.String("limits")})
	require.NoError(t, err)
	for _, item := range out.Items {
		if sk := item["SK"].(*types.AttributeValueMemberS).Value; strings.HasPrefix(sk, "#WARNED#") {
			text := func(attr string) string { return item[attr].(*types.AttributeValueMemberN).Value }
			parts := strings.Split(sk, "#")
			names = append(names, fmt.Sprintf("%s %d %s %s%% of %s", item["entity_id"].(*types.AttributeValueMemberS).Value, lifeOf(parts[len(parts)-1]), text("a_window"), text("a_percent"), text("a_amount")))
		}
	}
	slices.Sort(names)
	return names
}

// lifeOf returns the life in the name of an incarnation.
func lifeOf(name string) (life int) {
	var text []byte
	_, _ = fmt.Sscanf(name, "%x", &text)
	_, _ = fmt.Sscanf(string(text), "life %d", &life)
	return life
}

// alertHistory is what becomes of some buckets, and what must and may be told of it.
type alertHistory struct {
	records   map[string][]aggregator.Record
	must, may map[string]bool
}

// newAlertHistory draws a history. A bucket is used, gets money back, opens a window, is made anew, and gets other
// alerts and another amount.
func newAlertHistory(rt *rapid.T, buckets, steps int) alertHistory {
	h := alertHistory{map[string][]aggregator.Record{}, map[string]bool{}, map[string]bool{}}
	for i := range buckets {
		b := spentBucket{entity: fmt.Sprint("key-", i), window: march, amount: 1000, alerts: "50,80,95"}
		for seq := 1; seq <= steps; seq++ {
			before := b
			switch step := rapid.SampledFrom([]string{"use", "use", "use", "use", "use", "back", "window", "anew", "alerts", "amount", "deny", "grant"}).Draw(rt, "step"); {
			case b.life == 0 || step == "anew":
				b.life, b.used, b.counted, b.denied = b.life+1, 0, 0, ""
				b.granted = 0
			case step == "use":
				n := rapid.Int64Range(1, 400).Draw(rt, "used")
				b.used, b.counted = b.used+n, b.counted+n
			case step == "back":
				n := rapid.Int64Range(0, b.used).Draw(rt, "back")
				b.used, b.counted = b.used-n, b.counted-n
			case step == "window": // with the debt
				b.window, b.used, b.granted = b.window+1, max(0, b.used-b.amount-b.granted), 0
			case step == "alerts":
				b.alerts = rapid.SampledFrom([]string{"", "50", "80", "50,80,95,100", "20,100"}).Draw(rt, "alerts")
			case step == "amount":
				change := rapid.SampledFrom([]int64{500, 1000, 2000}).Draw(rt, "amount")
				b.amount = change
			case step == "deny":
				b.denied = b.mark()
			case step == "grant":
				b.granted, b.denied = b.granted+rapid.Int64Range(1, 500).Draw(rt, "granted"), ""
			}
			for _, name := range b.reached() {
				h.may[name] = true
			}
			if before.life > 0 && (before.life != b.life || before.window != b.window) || seq == steps {
				last := before
				if seq == steps && before.life == b.life && before.window == b.window {
					last = b
				}
				for _, name := range last.reached() {
					h.must[name] = true
				}
			}
			at := noon.Add(time.Duration(seq) * 7 * time.Minute)
			h.records[b.entity] = append(h.records[b.entity], change(seq, at, before, b))
		}
		for _, name := range b.reached() {
			h.must[name] = true
		}
	}
	return h
}

// batches draws batches that have each record at least once: of any buckets, repeated, cut, and of one bucket in order.
func (h alertHistory) batches(rt *rapid.T) (batches [][]aggregator.Record) {
	next, names := map[string]int{}, slices.Sorted(maps.Keys(h.records))
	for left := len(names); left > 0; {
		var batch []aggregator.Record
		for _, name := range names {
			all, at := h.records[name], next[name]
			if at == len(all) || rapid.IntRange(0, 3).Draw(rt, "quiet") == 0 {
				continue
			}
			from, to := rapid.IntRange(max(0, at-4), at).Draw(rt, "from"), rapid.IntRange(at+1, len(all)).Draw(rt, "to")
			batch = append(batch, all[from:to]...)
			if next[name] = to; to == len(all) {
				left--
			}
		}
		batches = append(batches, batch)
		if rapid.IntRange(0, 4).Draw(rt, "again") == 0 {
			batches = append(batches, batches[rapid.IntRange(0, len(batches)-1).Draw(rt, "which")])
		}
	}
	return batches
}

// alertBubble runs a test in virtual time on an empty table, with processors at the time of the records.
func alertBubble(t *testing.T, processors int, do func(ctx context.Context, db *ddbmem.DB, p []*aggregator.Processor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(noon.Add(2 * time.Hour)))
		db := ddbmem.New()
		defer db.Close()
		repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
		require.NoError(t, err)
		require.NoError(t, repo.CreateTable(t.Context()))
		var all []*aggregator.Processor
		for range processors {
			p, err := aggregator.New(db.Client(), "limits", nil)
			require.NoError(t, err)
			all = append(all, p)
		}
		do(t.Context(), db, all)
	})
}

// Two followers get the same records, in batches that are repeated and cut, of one of them in any order, and requests are
// lost. Each alert is decided
// once, none is missing, and none is of what never was. What counts nothing tells too, such as a change of the alerts.
func TestAlertsAreDecidedOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newAlertHistory(rt, 3, 12)
		of := [][][]aggregator.Record{h.batches(rt), rapid.Permutation(h.batches(rt)).Draw(rt, "order")}
		faults := rapid.SliceOfN(rapid.SampledFrom([]ddbmem.Fault{{}, {}, {}, {Lose: true}, {Drop: true}}), 1, 20).Draw(rt, "faults")
		faults = append(faults, ddbmem.Fault{}) // or nothing would ever land
		alertBubble(t, 2, func(ctx context.Context, db *ddbmem.DB, p []*aggregator.Processor) {
			var mu sync.Mutex
			requests := 0
			db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
				mu.Lock()
				defer mu.Unlock()
				requests++
				return faults[requests%len(faults)]
			})
			var told sync.Map
			var all sync.WaitGroup
			for i, batches := range of {
				all.Go(func() {
					for _, batch := range batches {
						for failed := true; failed; { // as a Tail does
							r, err := p[i].Process(ctx, batch)
							if err != nil {
								rt.Errorf("%v", err)
							}
							for _, a := range r.Alerts {
								told.Store(a.ID, a.Err)
							}
							failed = len(r.Failures) > 0
						}
					}
				})
			}
			all.Wait()
			db.SetFaults(nil)
			stored := storedAlerts(rt, db)
			assert.Equal(rt, slices.Compact(slices.Clone(stored)), stored, "once")
			for _, name := range stored {
				assert.True(rt, h.may[name], "%s never was", name)
			}
			for name := range h.must {
				assert.Contains(rt, stored, name)
			}
			n := 0
			told.Range(func(_, err any) bool { n++; return assert.Nil(rt, err) })
			assert.Len(rt, stored, n, "each is told by a processor")
		})
	})
}

// 100 buckets cross three thresholds, one of them after the other, over the end of a UTC day.
func TestAlertsOfAHundredBuckets(t *testing.T) {
	alertBubble(t, 2, func(ctx context.Context, db *ddbmem.DB, p []*aggregator.Processor) {
		midnight := time.Date(2026, 3, 30, 0, 0, 0, 0, time.UTC)
		decided := map[string]int{}
		for step := range 4 {
			var batch []aggregator.Record
			for i := range 100 {
				b := spentBucket{entity: fmt.Sprint("key-", i), life: 1, window: march, amount: 1000, alerts: "50,80,95"}
				before, after := b, b
				before.used, after.used = []int64{0, 500, 800, 600}[step], []int64{500, 800, 600, 990}[step] // an estimate comes back in between
				before.counted, after.counted = before.used, after.used
				if step == 0 {
					before.life = 0
				}
				batch = append(batch, change(step+1, midnight.Add(time.Duration(step-2)*time.Minute), before, after))
			}
			for _, one := range p { // both get everything
				r, err := one.Process(ctx, batch)
				require.NoError(t, err)
				require.Empty(t, r.Failures)
				for _, a := range r.Alerts {
					decided[a.ID]++
				}
			}
		}
		assert.Len(t, decided, 300)
		for id, n := range decided {
			assert.Equal(t, 1, n, id)
		}
		assert.Len(t, storedAlerts(t, db), 300)
	})
}

// A denial that did not happen because the quota is in shadow tells so. A denial later in the window tells anew.
func TestAlertsOfAQuotaInShadow(t *testing.T) {
	alertBubble(t, 1, func(ctx context.Context, db *ddbmem.DB, p []*aggregator.Processor) {
		spent := spentBucket{entity: "key-1", life: 1, window: march, amount: 1000, used: 970, counted: 970, alerts: "100"}
		shadowed, denied := change(1, noon, spent, spent), change(2, noon, spent, spent)
		shadowed.New["v_usd@?"] = &types.AttributeValueMemberS{Value: spent.mark()}
		denied.New["v_usd@?"], denied.New["v_usd@!"] = shadowed.New["v_usd@?"], shadowed.New["v_usd@?"]
		for _, r := range []aggregator.Record{shadowed, denied} {
			_, err := p[0].Process(ctx, []aggregator.Record{r})
			require.NoError(t, err)
			<-time.After(time.Second)
		}
		reader, err := aggregator.NewReader(db.Client(), "limits", nil)
		require.NoError(t, err)
		page, err := reader.Alerts(ctx, aggregator.AlertQuery{})
		require.NoError(t, err)
		var shadows []bool // the newest first
		for _, a := range page.Alerts {
			assert.Equal(t, 100, a.Percent)
			shadows = append(shadows, a.Shadow)
		}
		assert.Equal(t, []bool{false, true}, shadows)
	})
}

// A threshold that is set below one that was told tells with the next record, also where another follower told that one.
func TestLowerThresholdThatIsSetLater(t *testing.T) {
	alertBubble(t, 2, func(ctx context.Context, db *ddbmem.DB, p []*aggregator.Processor) {
		b := spentBucket{entity: "key-1", life: 1, window: march, amount: 1000, alerts: "80"}
		spent := b
		spent.used, spent.counted = 850, 850
		set := spent
		set.alerts = "50,80"
		for i, r := range []aggregator.Record{change(1, noon, b, spent), change(2, noon, spent, set)} {
			_, err := p[i].Process(ctx, []aggregator.Record{r})
			require.NoError(t, err)
		}
		assert.Len(t, storedAlerts(t, db), 2)
	})
}

// A role that must not store alerts counts usage as before, and the observer hears of it. A silent table holds the
// bucket's usage up until its alerts are stored.
func TestAlertsOfARoleWithoutThem(t *testing.T) {
	alertBubble(t, 1, func(ctx context.Context, db *ddbmem.DB, p []*aggregator.Processor) {
		isAlert := func(r *ddbmem.Request) bool { return strings.Contains(string(r.Body), "#WARNED#") }
		b := spentBucket{entity: "key-1", life: 1, window: march, amount: 1000, alerts: "50"}
		spent := b
		spent.used, spent.counted = 700, 700
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if isAlert(r) && r.Operation == "UpdateItem" {
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException"}}
			}
			return ddbmem.Fault{}
		})
		r, err := p[0].Process(ctx, []aggregator.Record{change(1, noon, b, spent)})
		require.NoError(t, err)
		assert.Equal(t, 1, r.Counted)
		assert.Empty(t, r.Failures)
		require.Len(t, r.Alerts, 1)
		require.Error(t, r.Alerts[0].Err)
		assert.Empty(t, storedAlerts(t, db))
		db.SetFaults(nil)
	})
}

// The whole requests that decide an alert, and their units: a read, and a write with its index. Repeated records cost
// nothing.
func TestAlertRequests(t *testing.T) {
	alertBubble(t, 1, func(ctx context.Context, db *ddbmem.DB, p []*aggregator.Processor) {
		b := spentBucket{entity: "key-1", life: 1, window: march, amount: 1000, alerts: "50,80"}
		spent := b
		spent.used = 700
		_, err := p[0].Process(ctx, []aggregator.Record{change(1, noon, spentBucket{}, spentBucket{entity: "key-2", life: 1, amount: 1, counted: 1})}) // reads the retention
		require.NoError(t, err)
		var mu sync.Mutex
		var shapes []string
		db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			mu.Lock()
			defer mu.Unlock()
			shapes = append(shapes, shapeOf(t, r))
			return ddbmem.Fault{}
		})
		for range 2 {
			before := db.Meter()
			r, err := p[0].Process(ctx, []aggregator.Record{change(1, noon, b, spent)})
			require.NoError(t, err)
			used := db.Meter().Sub(before)
			t.Logf("%d alerts: %.1f read units, %.1f write units", len(r.Alerts), used.ReadUnits(), used.WriteUnits())
			if len(r.Alerts) == 0 {
				assert.Zero(t, used.Requests())
				continue
			}
			assert.InDelta(t, 0.5, used.ReadUnits(), 0)
			assert.InDelta(t, 2, used.WriteUnits(), 0)
		}
		assertShapes(t, "alert_requests.txt", shapes)
	})
}
