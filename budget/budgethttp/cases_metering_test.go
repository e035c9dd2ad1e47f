package budgethttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/budget/internal/fixture"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// What is sent again is answered with what was counted, by whichever node.
func TestCaseB8ReplayIsANoOp(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		first := w.a.submit(call(1)).is(http.StatusAccepted)
		assert.Empty(t, first.header.Get("Idempotent-Replay"))
		for _, n := range []*node{w.a, w.b} {
			again := n.submit(call(1)).is(http.StatusAccepted)
			assert.Equal(t, "duplicate", again.at("status"))
			assert.Equal(t, "true", again.header.Get("Idempotent-Replay"))
			for _, same := range []string{"request_id", "cost_usd_micros", "shard", "day", "price_version"} {
				assert.Equal(t, first.at(same), again.at(same), same)
			}
		}
		assert.Equal(t, []int64{16_500, 1500, 800, 1}, w.total("premium", "").sums())
	})
}

// An id that was used for something else is a conflict.
func TestCaseB10SameIDDifferentBody(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.a.submit(call(1)).is(http.StatusAccepted)
		for _, n := range []*node{w.a, w.b} {
			n.submit(call(1).but(example{"tokens": example{"input": 1500, "output": 801}})).fails(http.StatusConflict, wire.IdempotencyConflict)
		}
		assert.Equal(t, []int64{16_500, 1500, 800, 1}, w.total("premium", "").sums())
	})
}

func TestCaseB12NoLostUpdates(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		together(16, 1000, func(i int) {
			r := []*node{w.a, w.b}[i%2].submit(call(i))
			assert.Equal(t, []any{http.StatusAccepted, "accepted"}, []any{r.status, r.at("status")}, "%s", r.raw)
		})
		assert.Equal(t, []int64{16_500_000, 1_500_000, 800_000, 1000}, w.total("premium", "20260123").sums())
	})
}

// volume is how many records go to one shard: DYNALIMIT_VOLUME, or what takes a moment.
func volume(t *testing.T, usual int) int {
	t.Helper()
	if set := os.Getenv("DYNALIMIT_VOLUME"); set != "" {
		n, err := strconv.Atoi(set)
		require.NoError(t, err)
		return n
	}
	return usual
}

// However much was counted, its counter is a small item, and the next call costs what the
// first did. DYNALIMIT_VOLUME=12000 counts as much as the case has, on every engine and with
// as many requests.
func TestCaseB13VolumePastTheWall(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.put(example{"agg_shard_count": 1, "quotas": example{"premium": 1_000_000_000_000, "standard": 1, "economy": 1}})
		w.a.submit(call(0)).is(http.StatusAccepted)
		first := w.unitsOf(call(1))
		size := fixture.Size(w.counter())
		n := volume(t, 300)
		together(16, n, func(i int) {
			r := []*node{w.a, w.b}[i%2].submit(call(1000 + i))
			assert.Equal(t, http.StatusAccepted, r.status, "%s", r.raw)
		})
		assert.Equal(t, first, w.unitsOf(call(2)), "write units of the last and of the first")
		total := int64(n + 3)
		assert.Equal(t, []int64{total * 16_500, total * 1500, total * 800, total}, w.total("premium", "").sums())
		assert.Less(t, fixture.Size(w.counter()), 1024)
		assert.Less(t, fixture.Size(w.counter()), size+64, "digits alone grow")
	})
}

// The case as it stands, in batches: 12,000 records of one shard.
func TestCaseB13VolumeInBatches(t *testing.T) {
	w := newWorld(t)
	w.put(example{"agg_shard_count": 1, "quotas": example{"premium": 1_000_000_000_000, "standard": 1, "economy": 1}})
	w.a.submit(call(0)).is(http.StatusAccepted)
	first := w.unitsOf(call(1))
	together(4, 120, func(batch int) {
		records := make([]any, 100)
		for i := range records {
			records[i] = call(1000 + batch*100 + i)
		}
		r := []*node{w.a, w.b}[batch%2].do(http.MethodPost, pathA+"/usage/batch", example{"records": records})
		assert.Equal(t, http.StatusMultiStatus, r.status, "%s", r.raw)
		assert.Equal(t, []int64{100, 0, 0}, []int64{r.number("accepted"), r.number("duplicate"), r.number("failed")})
	})
	assert.Equal(t, first, w.unitsOf(call(2)), "write units of the last and of the first")
	assert.Equal(t, []int64{12_003 * 16_500, 12_003 * 1500, 12_003 * 800, 12_003}, w.total("premium", "").sums())
	assert.Less(t, fixture.Size(w.counter()), 1024)
}

// counter is the one counter of app A's premium label.
func (w *world) counter() map[string]types.AttributeValue {
	w.t.Helper()
	found := fixture.Items(w.t, w.client, w.tables.Usage, "ORG#"+orgO+"#APP#"+appA+"#LABEL#premium")
	require.Len(w.t, found, 1)
	return found[0]
}

// unitsOf counts a call, and is how many write units that took; on somebody else's engine,
// which is not asked for what the keeper took, what one more update of the counter takes.
func (w *world) unitsOf(usage example) float64 {
	w.t.Helper()
	if w.db == nil || w.engine.Flaky() {
		w.a.submit(usage).is(http.StatusAccepted)
		item := w.counter()
		in := &dynamodb.UpdateItemInput{
			TableName: &w.tables.Usage, Key: map[string]types.AttributeValue{"PK": item["PK"], "SK": item["SK"]},
			UpdateExpression: aws.String("ADD #nothing :none"), ExpressionAttributeNames: map[string]string{"#nothing": "nothing"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":none": &types.AttributeValueMemberN{Value: "0"}},
			ReturnConsumedCapacity:    types.ReturnConsumedCapacityTotal,
		}
		out, err := w.client.UpdateItem(w.t.Context(), in)
		for range 10 { // a flaky engine answers so now and then, and the SDK does not ask again
			if _, conflict := errors.AsType[*types.TransactionConflictException](err); conflict {
				out, err = w.client.UpdateItem(w.t.Context(), in)
			}
		}
		require.NoError(w.t, err)
		return *out.ConsumedCapacity.CapacityUnits
	}
	before := w.db.Meter()
	w.a.submit(usage).is(http.StatusAccepted)
	return w.db.Meter().Sub(before).WriteUnits()
}

// A record belongs to the day of its timestamp, and the window has two ends.
func TestCaseB15LateAndEarlyTimestamps(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		for i, test := range []struct {
			ago time.Duration
			day string // none: refused
		}{
			{25 * time.Hour, ""},
			{3 * time.Hour, "20260123"},
			{12 * time.Hour, "20260122"},
			{-299 * time.Second, "20260123"},
			{-301 * time.Second, ""},
		} {
			r := w.a.submit(call(i).but(example{"timestamp": fixtureNow.Add(-test.ago).Format(time.RFC3339)}))
			if test.day == "" {
				r.fails(http.StatusBadRequest, wire.InvalidRequest)
				continue
			}
			assert.Equal(t, test.day, r.is(http.StatusAccepted).at("day"), "%v ago", test.ago)
		}
		for _, bad := range []any{"2026-01-23T15:30:45", "2026-01-23", "yesterday", "", 1769182245, "2026-01-23T15:30:45+99:00", "2026-13-23T15:30:45Z", nil, "0001-01-01T00:00:00Z", "0001-01-01T00:00:01Z", "0001-01-01T01:00:00+01:00"} {
			w.a.submit(call(9).but(example{"timestamp": bad})).fails(http.StatusBadRequest, wire.InvalidRequest)
		}
		assert.Equal(t, int64(2), w.total("premium", "20260123").number("requests"))
		assert.Equal(t, int64(1), w.total("premium", "20260122").number("requests"))
	})
}

// Each record of a batch is counted or refused by itself.
func TestCaseB16Batch(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		var records []any
		for i := range 95 {
			records = append(records, call(i))
		}
		records = append(records, call(3), call(7), call(200).but(example{"model_label": "gold", "model_id": nil}),
			call(201).but(example{"model_label": "silver", "model_id": nil}), call(202).but(example{"tokens": example{"input": -1}}))
		batch := pathA + "/usage/batch"
		r := w.a.do(http.MethodPost, batch, example{"records": records}).is(http.StatusMultiStatus)
		assert.Equal(t, []int64{97, 2, 3}, []int64{r.number("accepted"), r.number("duplicate"), r.number("failed")})
		assert.Len(t, r.at("results"), 100)
		codes, statuses := map[any]int{}, map[any]int{}
		for i := range records {
			at := fmt.Sprintf("results.%d.", i)
			assert.Equal(t, int64(i), r.number(at+"index"))
			statuses[r.at(at+"status")]++
			if r.at(at+"status") == "failed" {
				codes[r.at(at+"error.error")]++
				assert.NotEmpty(t, r.at(at+"error.message"))
				continue
			}
			assert.Equal(t, int64(16_500), r.number(at+"receipt.cost_usd_micros"))
		}
		assert.Equal(t, map[any]int{"accepted": 95, "duplicate": 2, "failed": 3}, statuses)
		assert.Equal(t, map[any]int{"INVALID_MODEL_LABEL": 2, "INVALID_REQUEST": 1}, codes)

		w.a.do(http.MethodPost, batch, example{"records": append(records, call(300))}).fails(http.StatusBadRequest, wire.InvalidRequest)
		w.a.do(http.MethodPost, batch, example{"records": []any{}}).fails(http.StatusBadRequest, wire.InvalidRequest)
		w.a.do(http.MethodPost, batch, example{}).fails(http.StatusBadRequest, wire.InvalidRequest)
		w.a.do(http.MethodPost, batch, records[:1]).fails(http.StatusBadRequest, wire.InvalidRequest)
		filler := strings.Repeat(" ", 1<<20)
		w.a.send(http.MethodPost, batch, []byte(`{"records": []}`+filler)).fails(http.StatusRequestEntityTooLarge, wire.PayloadTooLarge)
		assert.Equal(t, []int64{1_567_500, 95 * 1500, 95 * 800, 95}, w.total("premium", "").sums())
	})
}

// A total is of all shards, or there is none: what the store leaves out of an answer is asked
// for again, and what it leaves out for ever is no zero.
func TestCaseB18UnprocessedKeysAreNotZeros(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.a.submit(call(1)).is(http.StatusAccepted)
		left := func(times int) *node { // a node of no memory, whose store leaves a key of the configuration so many times
			w.engine.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				if r.Operation == "BatchGetItem" && r.Table == w.tables.Control && times != 0 {
					times--
					return ddbmem.Fault{Unprocessed: 1}
				}
				return ddbmem.Fault{}
			})
			return w.node(w.keeper())
		}
		r := left(2).get(pathA+"/aggregates/today").is(http.StatusOK).of("labels", "premium")
		assert.Equal(t, int64(16_500), r.number("cost_usd_micros"))
		failed := left(-1).get(pathA+"/aggregates/today").fails(http.StatusServiceUnavailable, wire.ServiceUnavailable)
		assert.NotEmpty(t, failed.header.Get("Retry-After"))
		w.engine.SetFaults(nil)
	})
}

// The same of a day's shards, which are read as a query: its pages come back short, or with
// nothing at all.
func TestCaseB18MissingPagesAreNotZeros(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		together(8, 64, func(i int) { assert.Equal(t, http.StatusAccepted, w.a.submit(call(i)).status) })
		w.clock.Advance(48 * time.Hour) // whoever reads the day now, stores its total
		closed := func() (totals int) { // of the label; of others there is nothing to sum
			for _, item := range fixture.Items(t, w.client, w.tables.Usage, "T#") {
				if strings.HasSuffix(fixture.Text(item, "SK"), "#premium") {
					totals++
				}
			}
			return totals
		}
		short := func(empty int) *node { // a node whose store answers with so many pages of nothing
			adapt := func(o *budget.Options) {
				if empty < 0 {
					o.Timeout = 300 * time.Millisecond
				}
			}
			client := w.client
			o := client.Options()
			o.HTTPClient = &shortPages{next: o.HTTPClient, empty: empty}
			w.client = dynamodb.New(o)
			defer func() { w.client = client }()
			return w.node(w.keeper(adapt))
		}
		failed := short(-1).get(pathA+"/aggregates/20260123").fails(http.StatusServiceUnavailable, wire.ServiceUnavailable)
		assert.NotEmpty(t, failed.header.Get("Retry-After"))
		assert.Zero(t, closed(), "no total is written")

		sum := short(2).get(pathA+"/aggregates/20260123").is(http.StatusOK).of("labels", "premium")
		assert.Equal(t, []int64{64 * 16_500, 64 * 1500, 64 * 800, 64}, sum.sums())
		assert.Eventually(t, func() bool { return closed() > 0 }, time.Minute, 5*time.Millisecond, "the day is closed")
		assert.Equal(t, []int64{64 * 16_500, 64 * 1500, 64 * 800, 64}, w.total("premium", "20260123").sums())
	})
}

// A node that was started later knows what others counted of an organisation it never heard of.
func TestCaseB19NoFixedListOfScopes(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		const path = "/api/v1/orgs/" + orgNone
		w.b.as("gone").get(path+"/aggregates/today").fails(http.StatusNotFound, wire.NotFound)
		w.a.as("key").do(http.MethodPut, path, exampleOrg).is(http.StatusCreated)
		w.a.as("gone").do(http.MethodPost, path+"/apps/app-never-put/usage", call(1)).is(http.StatusAccepted)
		require.NoError(t, w.a.keeper.Close(context.Background()))
		late := w.node(w.keeper()).as("gone")
		for _, of := range []string{"", "/apps/app-never-put"} {
			for _, day := range []string{"today", "2026-01-23", "20260123"} {
				assert.Equal(t, int64(16_500), late.get(path+of+"/aggregates/"+day).is(http.StatusOK).number("cost_usd_micros"))
			}
			assert.Equal(t, int64(0), late.get(path+of+"/aggregates/20260122").is(http.StatusOK).number("cost_usd_micros"))
		}
	})
}

// Two paths lead to the same: usage, and costs as it was first called.
func TestCostsIsAnotherNameOfUsage(t *testing.T) {
	w := newWorld(t)
	w.a.do(http.MethodPost, pathA+"/costs", call(1)).is(http.StatusAccepted)
	assert.Equal(t, "duplicate", w.a.submit(call(1)).is(http.StatusAccepted).at("status"))
	r := w.a.do(http.MethodPost, pathA+"/costs/batch", example{"records": []any{call(1), call(2)}}).is(http.StatusMultiStatus)
	assert.Equal(t, int64(1), r.number("duplicate"))
}

// A body of exactly the limit is taken, and one of a byte more is not.
func TestBodyMayBeAsLargeAsTheLimit(t *testing.T) {
	w := newWorld(t)
	raw, err := wireJSON(call(1))
	require.NoError(t, err)
	full := append(raw, []byte(strings.Repeat(" ", 64<<10-len(raw)))...)
	w.a.send(http.MethodPost, pathA+"/usage", append(full, ' ')).fails(http.StatusRequestEntityTooLarge, wire.PayloadTooLarge)
	w.a.send(http.MethodPost, pathA+"/usage", full).is(http.StatusAccepted)
	assert.Equal(t, int64(1), w.total("premium", "").number("requests"))
}
