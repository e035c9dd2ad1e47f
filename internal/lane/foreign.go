package lane

import (
	"context"
	"log/slog"
)

// noticeForeign logs, once in this process, that another implementation writes buckets
// that this one writes too. Each of them misses refill that the other has not written
// yet.
func (l *Lane) noticeForeign() {
	if l.owner.foreign.Swap(true) {
		return
	}
	l.owner.Log.WarnContext(context.Background(),
		"another program than dynalimit writes this bucket, and perhaps others; while both write, limits admit too much or too little: "+
			"let zae-limiter read the table, and stop its writers (docs/from-zae-limiter.md)",
		slog.String("entity", l.Entity), slog.String("resource", l.Resource))
}
