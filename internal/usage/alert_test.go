package usage

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// state is a state of a bucket with a quota of 100 tokens a day that has alerts at 50, 80 and 100 %.
type state struct {
	day, used, granted int64
	// denied is the day with the mark of a denial, and shadow that of one that did not happen.
	denied, shadow int64
	life           byte
}

// firstDay is the ordinal of 2026-03-29.
const firstDay = 20541

// item returns the state as a bucket is stored; nil for the zero state.
func (s state) item() schema.Item {
	if s == (state{}) {
		return nil
	}
	item := schema.Item{
		"q_tpd_w": schema.Number(firstDay + s.day), "q_tpd_z": schema.String("day UTC"), "q_tpd_bx": schema.Number(100_000),
		"q_tpd_tk": schema.Number(1000 * (100 + s.granted - s.used)), "v_tpd@": schema.String("50,80,100"), "ci": schema.Bytes([]byte{s.life}),
		fmt.Sprint("v_tpd@+", firstDay+s.day): schema.Number(1000 * s.granted),
	}
	if s.denied > 0 {
		item["v_tpd@!"] = schema.String(fmt.Sprint(firstDay+s.denied, " 100000"))
	}
	if s.shadow > 0 {
		item["v_tpd@?"] = schema.String(fmt.Sprint(firstDay+s.shadow, " 100000"))
	}
	return item
}

// The alerts that a batch of records shows, each as its day, its percentage, and the used part of the quota.
func TestDueAlerts(t *testing.T) {
	on := func(used int64) state { return state{day: 1, used: used} }
	for name, test := range map[string]struct {
		states []state // each record is a change from one to the next
		after  time.Duration
		due    []string
	}{
		"below all":                       {states: []state{on(0), on(49)}},
		"at the lowest":                   {states: []state{on(0), on(50)}, due: []string{"1 50 50/100"}},
		"over two":                        {states: []state{on(0), on(85)}, due: []string{"1 50 85/100", "1 80 85/100"}},
		"an estimate that came back":      {states: []state{on(0), on(85), on(60)}, due: []string{"1 50 60/100"}},
		"above before":                    {states: []state{on(55), on(56)}, due: []string{"1 50 56/100"}},
		"a bucket that was made":          {states: []state{{}, on(60)}, due: []string{"1 50 60/100"}},
		"a bucket that was deleted":       {states: []state{on(60), {}}, due: []string{"1 50 60/100"}},
		"a bucket made anew":              {states: []state{on(60), {day: 1, used: 10, life: 1}, {day: 1, used: 90, life: 1}}, due: []string{"1 50 60/100", "1 50 90/100", "1 80 90/100"}},
		"a window that ends in the batch": {states: []state{on(79), on(99), {day: 2, used: 1}}, due: []string{"1 50 99/100", "1 80 99/100"}},
		"a window that ends unseen":       {states: []state{on(99), {day: 2, used: 1}}, due: []string{"1 50 99/100", "1 80 99/100"}},
		"a window that opens in debt":     {states: []state{on(10), {day: 2, used: 120}}, due: []string{"2 50 120/100", "2 80 120/100"}},
		"used up, and nobody denied":      {states: []state{on(0), on(100)}, due: []string{"1 50 100/100", "1 80 100/100"}},
		"denied with a rest":              {states: []state{on(97), {day: 1, used: 97, denied: 1}}, due: []string{"1 50 97/100", "1 80 97/100", "1 100 97/100"}},
		"denied the day before":           {states: []state{on(0), {day: 2, used: 60, denied: 1}}, due: []string{"2 50 60/100"}},
		"denied in shadow":                {states: []state{on(97), {day: 1, used: 97, shadow: 1}}, due: []string{"1 50 97/100", "1 80 97/100", "1 100 97/100 shadow"}},
		"denied after the shadow":         {states: []state{{day: 1, used: 97, shadow: 1}, {day: 1, used: 97, shadow: 1, denied: 1}}, due: []string{"1 50 97/100", "1 80 97/100", "1 100 97/100"}},
		"granted":                         {states: []state{on(0), {day: 1, used: 110, granted: 100}}, due: []string{"1 50 110/200"}},
		"a day after the end":             {states: []state{on(0), on(60)}, after: 24 * time.Hour, due: []string{"1 50 60/100"}},
		"later":                           {states: []state{on(0), on(60)}, after: 24*time.Hour + 1},
	} {
		t.Run(name, func(t *testing.T) {
			var records []BucketRecord
			for i := range len(test.states) - 1 {
				records = append(records, BucketRecord{schema.Keys{}.Bucket("key", "all"), fmt.Sprintf("%040d", i), test.states[i].item(), test.states[i+1].item()})
			}
			end := time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC)
			var due []string
			for _, a := range DueAlerts(records, end.Add(test.after)) {
				text := fmt.Sprintf("%d %d %d/%d", a.Window-firstDay, a.Percent, a.Used/1000, a.Amount/1000)
				if a.Shadow {
					text += " shadow"
				}
				due = append(due, text)
			}
			assert.Equal(t, test.due, due)
		})
	}
}
