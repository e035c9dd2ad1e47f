package ledger

import (
	"context"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// ReadRecord reads the content of a counted record's dedup item. It returns false if the record was not
// counted.
func (l *Ledger) ReadRecord(ctx context.Context, key store.Key) (Stored, bool, error) {
	item, err := l.Store.Get(ctx, l.Store.Usage, key)
	if err != nil || item == nil {
		return Stored{}, false, err
	}
	stored, err := DecodeRecord(item)
	return stored, true, err
}
