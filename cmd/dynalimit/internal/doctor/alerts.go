package doctor

import (
	"context"

	"github.com/dynalimit/dynalimit/aggregator/alert"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
)

// checkAlerts returns a Warning if limits have alerts and no process delivers them, else an OK finding with its
// name. It returns nil if checkConfiguration found no alerts, and if v.down is set.
func (v *visit) checkAlerts(ctx context.Context) []tables.Finding {
	if v.alerted == "" || v.down != "" {
		return nil
	}
	switch holder, err := alert.Delivering(ctx, v.Client, v.table.Name(), v.Now()); {
	case err != nil:
		return []tables.Finding{tables.CannotCheck("%s", v.explainError(err))}
	case holder == "":
		return []tables.Finding{{
			Status: tables.Warning, Found: "limits of " + v.alerted + " have alerts, and nobody sends them",
			Means: "people are not told of their quotas: follow the stream with a webhook, or run a Deliverer", Fix: v.tailCommand() + " --alert-webhook FILE",
		}}
	default:
		return []tables.Finding{tables.Fine("%s sends them", holder)}
	}
}
