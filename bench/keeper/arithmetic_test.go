package keeper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestScheduleKeepsItsRates(t *testing.T) {
	s := newSchedule(1, [kinds]float64{selection: 200, submission: 50}, 100*time.Second)
	var count [kinds]int
	last := time.Duration(0)
	for n := 0; ; n++ {
		a, ok := s.next()
		if !ok {
			break
		}
		require.Equal(t, n, a.number)
		require.GreaterOrEqual(t, a.due, last)
		require.Less(t, a.due, 100*time.Second)
		last = a.due
		count[a.kind]++
	}
	assert.InDelta(t, 20_000, count[selection], 500)
	assert.InDelta(t, 5_000, count[submission], 250)
}

func TestScheduleIsDrawnAgain(t *testing.T) {
	rates := [kinds]float64{selection: 10, submission: 10}
	one, other := newSchedule(7, rates, time.Second), newSchedule(7, rates, time.Second)
	for ok := true; ok; {
		var a, b arrival
		a, ok = one.next()
		b, _ = other.next()
		require.Equal(t, a, b)
	}
	_, ok := newSchedule(7, [kinds]float64{}, time.Second).next()
	require.False(t, ok, "nothing is due")
}

func TestMonthly(t *testing.T) {
	b := monthly(4, 3, 1, 900) // a second
	assert.InDelta(t, 6.48, b.writes, .001)
	assert.InDelta(t, .972, b.reads, .001)
	assert.InDelta(t, .0441, b.storage, .0001, "176,400 items of 1,000 bytes")
	assert.InDelta(t, b.writes+b.reads+b.storage, b.total, 1e-9)
	assert.Zero(t, monthly(0, 0, 0, 0))
}

func TestCountersOfATransaction(t *testing.T) {
	body := []byte(`{"TransactItems":[
		{"Put":{"Item":{"PK":{"S":"DEDUP#o#a#r"},"SK":{"S":"#"}}}},
		{"Update":{"Key":{"PK":{"S":"ORG#o#LABEL#premium"},"SK":{"S":"DAY#20260123#SH#3"}}}},
		{"Update":{"Key":{"PK":{"S":"T#x"},"SK":{"S":"other"}}}}]}`)
	assert.Equal(t, []string{"ORG#o#LABEL#premium DAY#20260123#SH#3"}, countersOf(body))
	assert.Empty(t, countersOf([]byte("{")))
}

func TestQuestionOf(t *testing.T) {
	to := target{org: "o", app: "a", token: "secret"}
	at := time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC)
	q := questionOf(2, arrival{kind: submission, number: 17}, to, at)
	assert.JSONEq(t, `{"request_id":"00000002-0000-4000-8000-000000000011","model_label":"premium",
		"model_id":"anthropic.claude-3-5-sonnet-20241022-v2:0","tokens":{"input":1500,"output":800},"status":"OK",
		"timestamp":"2026-01-23T15:30:45Z"}`, string(q.body))
	assert.Equal(t, question{method: "GET", path: "/api/v1/orgs/o/apps/a/model-selection", token: "secret"}, questionOf(2, arrival{}, to, at))
}
