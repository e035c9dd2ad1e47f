package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// served is what this table shows of keeper's report.
type served struct {
	Name    string      `json:"name"`
	Goals   []fleetGoal `json:"goals"`
	Virtual bool        `json:"virtual_time"`
	Routes  []struct {
		Route     string  `json:"route"`
		PerSecond float64 `json:"answered_per_second"`
		Took      struct {
			P50 time.Duration `json:"p50_ns"`
			P99 time.Duration `json:"p99_ns"`
		} `json:"took"`
	} `json:"routes"`
	UnitsPerSubmission float64 `json:"write_units_per_submission"`
	Processors         struct {
		Store, Keepers, Clients float64
	} `json:"processors"`
	Month struct {
		Total float64 `json:"total"`
	} `json:"dollars_a_month"`
}

// keepers loads a keeper over REST: in virtual time, and by processes of its own.
func (r *reporter) keepers(ctx context.Context) error {
	for _, args := range [][]string{{"-scenario=linger"}, {"-scenario=month", "-warm-up=10s"}, {"-scenario=selection"}, {"-scenario=submission"}} {
		out, err := r.output(ctx, "keeper", append(args, "-json")...)
		if err != nil && len(out) == 0 { // else a goal was missed, as the rows say
			return err
		}
		for all := json.NewDecoder(bytes.NewReader(out)); all.More(); {
			var s served
			if err := all.Decode(&s); err != nil {
				return err
			}
			r.add(goalRows(s.Name, s.remark(), s.Goals)...)
		}
	}
	return nil
}

func (s *served) remark() string {
	var parts []string
	for _, a := range s.Routes {
		parts = append(parts, fmt.Sprintf("%.0f/s of %s: p50 %v, p99 %v", a.PerSecond, a.Route, a.Took.P50.Round(10*time.Microsecond), a.Took.P99.Round(10*time.Microsecond)))
	}
	if s.UnitsPerSubmission > 0 {
		parts = append(parts, fmt.Sprintf("%.2f write units a submission", s.UnitsPerSubmission))
	}
	if s.Virtual {
		return strings.Join(append(parts, fmt.Sprintf("$%.0f a month; virtual time", s.Month.Total)), "; ")
	}
	return strings.Join(append(parts, fmt.Sprintf("processors: store %.2f, keeper %.2f, clients %.2f", s.Processors.Store, s.Processors.Keepers, s.Processors.Clients)), "; ")
}
