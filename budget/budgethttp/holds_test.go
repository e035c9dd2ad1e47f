package budgethttp

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/ddbmem"
)

func (w *world) hard() {
	o := fixtureOrg()
	o.ID, o.Enforcement = orgOther, budget.Hard
	w.org(o)
	w.clock.Advance(24 * time.Hour) // enforcement changes with the day
}

const pathHard = "/api/v1/orgs/" + orgOther + "/apps/" + appA

func (n *node) reserve(i int, values example) *reply {
	n.t.Helper()
	return n.as("other").do(http.MethodPost, pathHard+"/holds", exampleReserve.but(example{"hold_id": uuid(i)}).but(values))
}

// hold asks for a hold's end, or for more of it.
func (n *node) hold(i int, what string, body any) *reply {
	n.t.Helper()
	return n.as("other").do(http.MethodPost, pathHard+"/holds/"+uuid(i)+"/"+what, body)
}

// held is what is held and spent of premium, by node b.
func (w *world) held() (held, spent int64) {
	w.t.Helper()
	r := w.b.as("other").get(pathHard + "/aggregates/today").is(http.StatusOK)
	return r.number("labels.0.held_usd_micros"), r.number("labels.0.cost_usd_micros")
}

// used is usage of a hold's call, of 16,500 µ$.
func (w *world) used(n int) example {
	return call(n).but(example{"timestamp": w.clock.Now().Format(time.RFC3339)})
}

// A reservation that is sent again is the same hold; for something else it is a conflict.
func TestHoldIsReservedOnce(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.hard()
		first := w.a.reserve(1, nil).is(http.StatusCreated)
		assert.Equal(t, []any{"money", premiumModel, "20260124"}, []any{first.at("holds"), first.at("model_id"), first.at("day")})
		again := w.b.reserve(1, nil).is(http.StatusCreated)
		assert.Equal(t, first.body, again.body)
		w.b.reserve(1, example{"estimate_usd_micros": 1}).fails(http.StatusConflict, wire.IdempotencyConflict)
		held, spent := w.held()
		assert.Equal(t, []int64{100_000, 0}, []int64{held, spent})

		receipt := w.b.hold(1, "settle", w.used(1)).is(http.StatusAccepted)
		assert.Equal(t, int64(16_500), receipt.number("cost_usd_micros"))
		twice := w.a.hold(1, "settle", w.used(1)).is(http.StatusAccepted)
		assert.Equal(t, "true", twice.header.Get("Idempotent-Replay"))
		held, spent = w.held()
		assert.Equal(t, []int64{0, 16_500}, []int64{held, spent})
		w.a.hold(1, "release", nil).is(http.StatusNoContent)
		w.a.hold(1, "extend", example{"lease_secs": 120}).fails(http.StatusNotFound, wire.NotFound)
		w.a.reserve(1, nil).fails(http.StatusConflict, wire.IdempotencyConflict)

		w.a.reserve(2, nil).is(http.StatusCreated)
		w.b.hold(2, "release", nil).is(http.StatusNoContent)
		w.a.hold(2, "release", nil).is(http.StatusNoContent)
		held, spent = w.held()
		assert.Equal(t, []int64{0, 16_500}, []int64{held, spent})
	})
}

// A hold ends with its lease, unless it is extended; what it was for counts all the same.
func TestHoldEndsWithItsLease(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.hard()
		w.a.reserve(1, nil).is(http.StatusCreated)
		w.a.reserve(2, nil).is(http.StatusCreated)
		w.clock.Advance(50 * time.Second)
		r := w.b.hold(2, "extend", exampleExtend).is(http.StatusOK)
		assert.Equal(t, w.clock.Now().Add(time.Minute).Format(time.RFC3339), r.at("expires_at"))
		w.clock.Advance(20 * time.Second)
		w.b.hold(1, "settle", w.used(1)).is(http.StatusAccepted)
		w.a.hold(2, "settle", w.used(2)).is(http.StatusAccepted)
		held, spent := w.held()
		assert.Equal(t, []int64{0, 33_000}, []int64{held, spent})
	})
}

// Under soft enforcement nothing is held, and the usage settles all the same.
func TestSoftHoldHoldsNothing(t *testing.T) {
	w := newWorld(t)
	r := w.a.do(http.MethodPost, pathA+"/holds", exampleReserve).is(http.StatusCreated)
	assert.Equal(t, "nothing", r.at("holds"))
	assert.NotContains(t, r.body, "expires_at")
	w.b.do(http.MethodPost, pathA+"/holds/"+r.text("hold_id")+"/settle", call(1)).is(http.StatusAccepted)
	assert.Equal(t, int64(16_500), w.total("premium", "").number("cost_usd_micros"))
}

func TestHoldsHaveBounds(t *testing.T) {
	w := newWorld(t)
	w.hard()
	for _, bad := range []example{
		{"hold_id": "x"},
		{"hold_id": nil},
		{"estimate_usd_micros": -1},
		{"estimate_usd_micros": 1.5},
		{"estimate_usd_micros": 1e18},
		{"estimate_usd_micros": "12"},
		{"estimate_usd_micros": nil},
		{"lease_secs": 0},
		{"lease_secs": 86_401},
		{"lease_secs": nil},
		{"model_label": "#"},
		{"unknown": 1},
	} {
		w.a.reserve(1, bad).fails(http.StatusBadRequest, wire.InvalidRequest)
	}
	w.a.reserve(1, example{"model_label": "gold"}).fails(http.StatusBadRequest, wire.InvalidModelLabel)
	never := w.a.reserve(1, example{"estimate_usd_micros": 10_000_001}).fails(http.StatusTooManyRequests, wire.QuotaExceeded)
	assert.Empty(t, never.header.Get("Retry-After"), "no wait helps")
	for what, body := range map[string]any{"settle": w.used(1), "release": nil, "extend": exampleExtend} {
		w.a.hold(9, what, body).fails(http.StatusNotFound, wire.NotFound)
		w.a.do(http.MethodPost, pathHard+"/holds/"+uuid(9)+"/"+what, body).fails(http.StatusForbidden, wire.Forbidden)
	}
	w.a.reserve(1, nil).is(http.StatusCreated)
	w.a.hold(1, "settle", w.used(1).but(example{"model_label": "standard", "model_id": nil})).fails(http.StatusBadRequest, wire.InvalidRequest)
	w.a.hold(1, "extend", example{"lease_secs": 86_401}).fails(http.StatusBadRequest, wire.InvalidRequest)
	held, _ := w.held()
	assert.Equal(t, int64(100_000), held)
}

// What is deleted is found no more, and its credentials and tokens end.
func TestDeletionEndsEverything(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		good := w.login(pathA)
		grant := w.a.as("").do(http.MethodPost, "/auth/token", good).is(http.StatusOK)
		w.a.submit(call(1)).is(http.StatusAccepted)
		admin := w.a.as("key")
		r := admin.do(http.MethodDelete, pathA, nil).is(http.StatusOK)
		assert.Equal(t, true, r.at("complete"))
		w.a.ask(grant.text("access_token")).fails(http.StatusUnauthorized, wire.Unauthorized)
		w.a.as("").do(http.MethodPost, "/auth/token", good).fails(http.StatusUnauthorized, wire.Unauthorized)
		w.a.as("org").get(pathA+"/model-selection").fails(http.StatusNotFound, wire.NotFound)
		admin.get(pathA).fails(http.StatusNotFound, wire.NotFound)
		assert.Equal(t, int64(16_500), w.b.get(pathO+"/aggregates/today").is(http.StatusOK).number("cost_usd_micros"), "what was counted is kept")
		admin.do(http.MethodPut, pathA, exampleApp).is(http.StatusCreated)
		w.a.as("").do(http.MethodPost, "/auth/token", good).fails(http.StatusUnauthorized, wire.Unauthorized)

		half := admin.do(http.MethodDelete, pathO+"?purge=true", nil).is(http.StatusAccepted)
		assert.Equal(t, []any{false, float64(1)}, []any{half.at("complete"), half.at("apps")})
		w.a.get(pathO+"/aggregates/today").fails(http.StatusNotFound, wire.NotFound)
		early := admin.do(http.MethodPut, pathO, exampleOrg).fails(http.StatusConflict, wire.ConcurrentModification)
		assert.Contains(t, early.text("message"), "being deleted")
		assert.Equal(t, "360", early.header.Get("Retry-After"))
		again, err := time.Parse(time.RFC3339, half.text("again_at"))
		assert.NoError(t, err)
		w.clock.Set(again.Add(time.Second))
		assert.Equal(t, true, admin.do(http.MethodDelete, pathO+"?purge=true", nil).is(http.StatusOK).at("complete"))
		admin.do(http.MethodPut, pathO, exampleOrg).is(http.StatusCreated)
		admin.do(http.MethodDelete, "/api/v1/orgs/"+orgNone, nil).fails(http.StatusNotFound, wire.NotFound)
		w.a.do(http.MethodDelete, pathO, nil).fails(http.StatusUnauthorized, wire.Unauthorized)
	})
}

// What is deleted while a PUT makes its credentials has none afterwards.
func TestDeletionDuringAPutLeavesNoCredentials(t *testing.T) {
	for path, body := range map[string]example{"/api/v1/orgs/" + orgNone: exampleOrg, pathA: exampleApp} {
		w := newWorld(t)
		var began atomic.Bool
		var deleted atomic.Int64
		w.engine.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if bytes.Contains(r.Body, []byte("CLIENT#")) && !began.Swap(true) { // the PUT asks whether it has any
				deleted.Store(int64(w.b.as("key").do(http.MethodDelete, path, nil).status))
			}
			return ddbmem.Fault{}
		})
		w.a.as("key").do(http.MethodPut, path, body).fails(http.StatusNotFound, wire.NotFound)
		w.engine.SetFaults(nil)
		assert.Equal(t, int64(http.StatusOK), deleted.Load())
		w.a.as("key").do(http.MethodPost, path+"/credentials/rotate", example{"grace_hours": 0}).fails(http.StatusNotFound, wire.NotFound)
		w.b.as("key").do(http.MethodPut, path, body).is(http.StatusCreated)
	}
}
