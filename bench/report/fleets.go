package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// fleets plays the named fleets, each beside its goals.
func (r *reporter) fleets(ctx context.Context) error {
	for _, name := range []string{"A", "A-1s", "A-250ms", "A2", "B", "C", "D", "F"} {
		out, err := r.output(ctx, "scale", "-json", "-for=10s", "-scenario="+name)
		if err != nil {
			return err
		}
		for all := json.NewDecoder(bytes.NewReader(out)); all.More(); {
			var s simulation
			if err := all.Decode(&s); err != nil {
				return err
			}
			r.add(s.rows()...)
		}
	}
	return nil
}

// rows are the goals of a fleet, and that nothing was admitted too much.
func (s *simulation) rows() []row {
	return append(goalRows(s.Fleet, s.remark(), s.Goals), s.tooMuch())
}

// goalRows are the goals of a run and what came out, the first with a remark on all.
func goalRows(name, remark string, goals []fleetGoal) []row {
	var rows []row
	for _, g := range goals {
		what, note := "— "+g.What, ""
		if len(rows) == 0 {
			what, note = name+": "+g.What, remark
		}
		is := atMost(g.Bound)
		if g.AtLeast {
			is = atLeast(g.Bound)
		}
		rows = append(rows, row{what, g.Value, "", is, note})
	}
	return rows
}

// tooMuch is what was admitted above the limit, where Prefetch allows some.
func (s *simulation) tooMuch() row {
	r := row{"— tokens admitted too much", max(0, -float64(s.Ledger.Lost)) / 1000, "", exactly(0), ""}
	if s.Excess > 0 {
		r.bar, r.note = atMost(s.Excess), "refill × Prefetch"
	}
	return r
}

func (s *simulation) remark() string {
	ahead := ""
	if s.Prefetch > 0 {
		ahead = fmt.Sprintf("; %.2f %% from memory, %.2f %% lapsed", 100*s.Served, 100*s.Lapsed)
	}
	return fmt.Sprintf("of %d offered %d denied, %d failed; %.0f writes/s: %.0f landed, %.0f refused, %.0f throttled; %.0f reads/s; granted after p50 %v, p99 %v; least served %.0f %%%s",
		s.Offered, s.Denied, s.Failed, s.Attempts, s.Landed, s.Refused, s.Throttled, s.ReadUnits,
		s.Granted.P50.Round(time.Millisecond), s.Granted.P99.Round(time.Millisecond), 100*s.LeastServed, ahead)
}
