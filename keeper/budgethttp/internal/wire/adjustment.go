package wire

import (
	"time"

	"github.com/dynalimit/dynalimit/keeper/budget"
)

// Adjustment is a manual credit or charge.
type Adjustment struct {
	ID          string `json:"id" pattern:"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" patternDescription:"a lower-case UUID" doc:"It is applied once under this id, however often it is sent" example:"0f8fad5b-d9cb-469f-a165-70867728950e"`
	Label       string `json:"model_label" pattern:"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$" doc:"A label that the organisation uses or has used" example:"premium"`
	Day         string `json:"day,omitempty" pattern:"^([0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2})$" patternDescription:"a date like 2026-01-23" doc:"The day it counts on. Defaults to today" example:"20260123"`
	DeltaMicros int64  `json:"delta_usd_micros" minimum:"-1000000000000" maximum:"1000000000000" doc:"What it charges; below zero it credits. Not 0" example:"-16500"`
	Reason      string `json:"reason" minLength:"1" maxLength:"256" doc:"Kept with it" example:"counted twice by the batch job"`
}

// Budget returns the adjustment in the form of package budget, with its day as 20260123.
func (a Adjustment) Budget() budget.Adjustment {
	return budget.Adjustment{ID: a.ID, Label: a.Label, Day: StoredDay(a.Day), DeltaMicros: a.DeltaMicros, Reason: a.Reason}
}

// Adjusted is an applied adjustment.
type Adjusted struct {
	Adjustment
	Status string    `json:"status" enum:"accepted,duplicate" doc:"duplicate: it was applied before"`
	At     time.Time `json:"at,omitzero" doc:"When it was first sent"`
}

// NewAdjusted converts an applied adjustment for a response, with its status: accepted or
// duplicate.
func NewAdjusted(a budget.Adjustment) Adjusted {
	out := Adjusted{
		Adjustment: Adjustment{a.ID, a.Label, a.Day, a.DeltaMicros, a.Reason},
		Status:     StatusAccepted, At: a.At.UTC(),
	}
	if a.Duplicate {
		out.Status = StatusDuplicate
	}
	return out
}

// Override is a label that an administrator forces.
type Override struct {
	Label string    `json:"model_label" pattern:"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$" doc:"One of the app's ordering" example:"standard"`
	Until time.Time `json:"until" doc:"When it ends by itself; not past" example:"2099-12-31T05:00:00Z"`
}

// History is days, oldest first.
type History struct {
	Org  string   `json:"org_id" doc:"The organisation"`
	App  string   `json:"app_id,omitempty" doc:"The app; absent: all of them"`
	Days []Totals `json:"days" nullable:"false" doc:"Those up to today"`
}
