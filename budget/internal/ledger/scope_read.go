package ledger

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// scopeRows is what one query of a scope found.
type scopeRows struct {
	rows   map[store.Key]map[string]Counter
	closed map[string]map[string]Counter
}

// readScope reads counters consistently: one query per label, and the period
// counters in one batch.
func (l *Ledger) readScope(ctx context.Context, scope string, n Need) (scopeRows, error) {
	out := scopeRows{rows: map[store.Key]map[string]Counter{}}
	var mu sync.Mutex
	err := store.Each(ctx, maps.Keys(n.labels), func(ctx context.Context, label string) error {
		pk := LabelPartition(scope, label)
		return l.ReadShards(ctx, pk, "DAY#"+n.from, "DAY#"+n.day+"~", func(sk string, row Counter) {
			mu.Lock()
			defer mu.Unlock()
			addShard(out.rows, pk, sk, row)
		})
	})
	if err != nil {
		return out, err
	}
	keys := make([]store.Key, 0, len(n.refs))
	for ref := range n.refs {
		keys = append(keys, shardKey(ref.PK, ref.SK, 0))
	}
	items, err := l.Store.BatchGet(ctx, l.Store.Usage, keys...)
	if err != nil {
		return out, err
	}
	for key, item := range items {
		row, err := DecodeCounter(item)
		if err != nil {
			return out, err
		}
		addShard(out.rows, key.PK, key.SK, row)
	}
	if n.closed != "" && n.closed < n.from {
		var days Days
		days, err = l.SumDays(ctx, n.calendar, scope, n.labels, n.closed, calendar.AddDays(n.from, -1))
		out.closed = days.Rows
		l.CloseBehind(CollectClosings(n.closed, days.Complete))
	}
	return out, err
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
