package budgethttp

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
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
			n.submit(call(1).but(example{"tokens": example{"input": 1500, "output": 801}})).fails(http.StatusConflict, wire.IdempotencyConflict)
		}
		assert.Equal(t, []int64{16_500, 1500, 800, 1}, w.total("premium", "").sums())
	})
}

// A record belongs to the day of its timestamp, and the window has two ends.
func TestCaseB15LateAndEarlyTimestamps(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		for i, test := range []struct {
			ago time.Duration
			day string // none: refused
		}{
			{25 * time.Hour, ""},
			{3 * time.Hour, "20990123"},
			{12 * time.Hour, "20990122"},
			{-299 * time.Second, "20990123"},
			{-301 * time.Second, ""},
		} {
			r := w.a.submit(call(i).but(example{"timestamp": fixtureNow.Add(-test.ago).Format(time.RFC3339)}))
			if test.day == "" {
				r.fails(http.StatusBadRequest, wire.InvalidRequest)
				continue
			}
			assert.Equal(t, test.day, r.is(http.StatusAccepted).at("day"), "%v ago", test.ago)
		}
		for _, bad := range []any{"2099-01-23T15:30:45", "2099-01-23", "yesterday", "", 1769182245, "2099-01-23T15:30:45+99:00", "2099-13-23T15:30:45Z", nil, "0001-01-01T00:00:00Z", "0001-01-01T00:00:01Z", "0001-01-01T01:00:00+01:00"} {
			w.a.submit(call(9).but(example{"timestamp": bad})).fails(http.StatusBadRequest, wire.InvalidRequest)
		}
		assert.Equal(t, int64(2), w.total("premium", "20990123").number("requests"))
		assert.Equal(t, int64(1), w.total("premium", "20990122").number("requests"))
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
