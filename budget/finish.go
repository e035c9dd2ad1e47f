package budget

import (
	"context"
	"iter"
	"strings"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// FinishReport says what became of deletions that were begun.
type FinishReport struct {
	Open      int // that are not complete yet
	Completed int // by this call, or by another meanwhile
}

// begun takes the place of the mark, and does what follows that of an organisation.
func (d *deletion) begun(ctx context.Context) error {
	if err := d.still(ctx); err != nil || d.app != "" {
		return err
	}
	return d.deleteApps(ctx)
}

// openDeletions are those of which there is a note; with an error if that cannot be read, or
// nil if the table cannot.
func (adm *administration) openDeletions(ctx context.Context) iter.Seq2[*deletion, error] {
	return func(yield func(*deletion, error) bool) {
		for item, err := range adm.desk.scan(ctx, orgPrefix, workNotes, true) {
			if err != nil {
				yield(nil, err)
				return
			}
			key := store.KeyOf(item)
			d := &deletion{store: adm.store, admin: adm, org: key.PK[len(orgPrefix):], app: strings.TrimPrefix(key.SK[len(deletionPrefix):], appPrefix)}
			d.work, err = decodeWork(item)
			if !yield(d, err) {
				return
			}
		}
	}
}
