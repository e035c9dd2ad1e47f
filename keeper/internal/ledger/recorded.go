package ledger

import (
	"context"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// ReadRecord reads the dedup item under key and returns the content of the counted record. It returns false
// without an error if no such record was counted.
func (l *Ledger) ReadRecord(ctx context.Context, key store.Key) (Stored, bool, error) {
	item, err := l.Store.Get(ctx, l.Store.Usage, key)
	if err != nil || item == nil {
		return Stored{}, false, err
	}
	stored, err := DecodeRecord(item)
	return stored, true, err
}
