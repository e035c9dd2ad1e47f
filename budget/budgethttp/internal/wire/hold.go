package wire

import (
	"time"

	"github.com/dynalimit/dynalimit/budget"
)

// HoldPath is the path of a hold.
type HoldPath struct {
	AppPath
	ID string `path:"hold_id" pattern:"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" patternDescription:"a lower-case UUID" doc:"The hold, as it was reserved" example:"3f2504e0-4f89-41d3-9a0c-0305e82c3301"`
}

// Reserve asks for money to be set aside for one call.
type Reserve struct {
	ID             string `json:"hold_id" pattern:"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" patternDescription:"a lower-case UUID" doc:"Chosen by the client: sent again it is the same hold" example:"3f2504e0-4f89-41d3-9a0c-0305e82c3301"`
	Label          string `json:"model_label" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" doc:"The label that the call is made under" example:"premium"`
	EstimateMicros Micros `json:"estimate_usd_micros" doc:"What the call may cost" example:"100000"`
	LeaseSecs      int64  `json:"lease_secs" minimum:"1" maximum:"86400" doc:"How long it is held at most" example:"60"`
}

// Extend asks for a hold to be kept longer.
type Extend struct {
	LeaseSecs int64 `json:"lease_secs" minimum:"1" maximum:"86400" doc:"How long from now" example:"60"`
}

// Hold is money set aside for one call.
type Hold struct {
	ID             string     `json:"hold_id" doc:"The hold"`
	Label          string     `json:"model_label" doc:"Its label; the usage that settles it has the same"`
	Model          string     `json:"model_id,omitempty" doc:"The label's model"`
	Day            string     `json:"day,omitempty" doc:"The day that the call counts on"`
	EstimateMicros int64      `json:"estimate_usd_micros" doc:"What was asked for"`
	Holds          string     `json:"holds" enum:"money,nothing" doc:"nothing: enforcement is soft and the label has room, or the store did not answer"`
	Degraded       bool       `json:"degraded,omitempty" doc:"The store did not answer: send the usage as such, there is no hold to settle"`
	ExpiresAt      *time.Time `json:"expires_at,omitempty" doc:"When the money is free again; absent when none is held"`
}

// NewHold is a hold as the keeper has it.
func NewHold(h *budget.Hold) Hold {
	out := Hold{
		ID: h.ID, Label: h.Label, Model: h.Model, Day: h.Day, EstimateMicros: h.EstimateMicros,
		Holds: "money", Degraded: h.Degraded, ExpiresAt: instant(h.ExpiresAt()),
	}
	if h.Soft || h.Degraded {
		out.Holds = "nothing"
	}
	return out
}

// Purge is the query of a deletion.
type Purge struct {
	Purge bool `query:"purge" doc:"Remove what was counted, too. It reads the whole usage table"`
}

// Deleted is how far a deletion is.
type Deleted struct {
	Complete bool       `json:"complete" doc:"Nothing is left to do: it may be put again"`
	Again    *time.Time `json:"again_at,omitempty" doc:"When to send the same again, if it is not complete"`
	Apps     int        `json:"apps" doc:"That were deleted with their organisation"`
	Released int        `json:"holds_released" doc:"Holds that were ended"`
	Purged   int        `json:"items_purged" doc:"Items of the usage table that were removed"`
}

// NewDeleted is what the keeper reports.
func NewDeleted(r budget.DeletionReport) Deleted {
	return Deleted{r.Complete, instant(r.Again), r.Apps, r.Released, r.Purged}
}
