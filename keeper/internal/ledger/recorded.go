package ledger

import (
	"context"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Recorded returns the content of a record's dedup item, or false if the item does not exist.
func (l *Ledger) Recorded(ctx context.Context, key store.Key) (Stored, bool, error) {
	item, err := l.Store.Get(ctx, l.Store.Usage, key)
	if err != nil || item == nil {
		return Stored{}, false, err
	}
	stored, err := DecodeRecord(item)
	return stored, true, err
}
