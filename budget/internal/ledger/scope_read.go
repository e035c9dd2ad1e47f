package ledger

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// readScope reads the counters of a day consistently: one query per label.
func (l *Ledger) readScope(ctx context.Context, scope string, n Need) (map[store.Key]map[string]Counter, error) {
	rows := map[store.Key]map[string]Counter{}
	var mu sync.Mutex
	err := store.Each(ctx, maps.Keys(n.Labels), func(ctx context.Context, label string) error {
		pk := LabelPartition(scope, label)
		return l.ReadShards(ctx, pk, "DAY#"+n.Day, "DAY#"+n.Day+"~", func(sk string, row Counter) {
			mu.Lock()
			defer mu.Unlock()
			addShard(rows, pk, sk, row)
		})
	})
	return rows, err
}

// ReadShards calls each for every counter of a partition between two sort keys.
func (l *Ledger) ReadShards(ctx context.Context, pk, from, to string, each func(sk string, row Counter)) error {
	return l.Store.Query(ctx, l.Store.Usage, pk, from, to, func(item store.Item) error {
		row, err := DecodeCounter(item)
		if err == nil {
			each(store.KeyOf(item).SK, row)
		}
		return err
	})
}

func addShard(rows map[store.Key]map[string]Counter, pk, sk string, row Counter) {
	end := strings.LastIndex(sk, "#SH#")
	if end < 0 {
		return
	}
	ref := store.Key{PK: pk, SK: sk[:end+len("#SH#")]}
	if rows[ref] == nil {
		rows[ref] = map[string]Counter{}
	}
	rows[ref][sk] = row
}
