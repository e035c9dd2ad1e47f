package wire

import (
	"time"

	"github.com/dynalimit/dynalimit/budget"
)

// Purge is the query of a deletion.
type Purge struct {
	Purge bool `query:"purge" doc:"Remove what was counted, too. It reads the whole usage table"`
}

// Deleted is how far a deletion is.
type Deleted struct {
	Complete bool       `json:"complete" doc:"Nothing is left to do: it may be put again"`
	Again    *time.Time `json:"again_at,omitempty" doc:"When to send the same again, if it is not complete"`
	Apps     int        `json:"apps" doc:"That were deleted with their organisation"`
	Purged   int        `json:"items_purged" doc:"Items of the usage table that were removed"`
}

// NewDeleted is what the keeper reports.
func NewDeleted(r budget.DeletionReport) Deleted {
	return Deleted{r.Complete, instant(r.Again), r.Apps, r.Purged}
}
