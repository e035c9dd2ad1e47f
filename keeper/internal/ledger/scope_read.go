package ledger

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// readScope reads the counters of the day and the labels in n, and returns them by counter and then by shard
// key. It sends one query per label, and one for each further shard of a label.
func (l *Ledger) readScope(ctx context.Context, scope string, n Need) (map[store.Key]map[store.Key]Counter, error) {
	rows := map[store.Key]map[store.Key]Counter{}
	var mu sync.Mutex
	err := store.Each(ctx, maps.Keys(n.Labels), func(ctx context.Context, label string) error {
		pk := LabelPartition(scope, label)
		return l.ReadShards(ctx, pk, "DAY#"+n.Day, "DAY#"+n.Day+"~", nil, func(key store.Key, row Counter) {
			mu.Lock()
			defer mu.Unlock()
			addShard(rows, pk, key, row)
		})
	})
	return rows, err
}

// Shards is a set of shards of a counter, without the first.
type Shards map[int]bool

// add adds shards to the set.
func (s Shards) add(shards []int) {
	for _, shard := range shards {
		s[shard] = true
	}
}

// ReadShards calls each for every counter of a partition between two sort keys. It also reads the partitions
// of further shards: those that the partition's own items list, and those in also. A shard is listed before
// its first write, so the result contains every write that landed before the read.
func (l *Ledger) ReadShards(ctx context.Context, pk, from, to string, also Shards, each func(key store.Key, row Counter)) error {
	told := Shards{}
	maps.Copy(told, also)
	var mu sync.Mutex // guards told, and calls of each
	read := func(ctx context.Context, pk string) error {
		return l.Store.Query(ctx, l.Store.Usage, pk, from, to, func(item store.Item) error {
			row, err := DecodeCounter(item)
			if err != nil {
				return err
			}
			shards, err := announcedShards(item)
			mu.Lock()
			defer mu.Unlock()
			told.add(shards)
			each(store.KeyOf(item), row)
			return err
		})
	}
	if err := read(ctx, pk); err != nil {
		return err
	}
	return store.Each(ctx, maps.Keys(maps.Clone(told)), func(ctx context.Context, shard int) error {
		return read(ctx, shardPartition(pk, shard))
	})
}

// ShardsOf reads the numbers of the further shards that the labels' counters of a day use.
func (l *Ledger) ShardsOf(ctx context.Context, scope string, labels []string, day string) (Shards, error) {
	keys := make([]store.Key, len(labels))
	for i, label := range labels {
		keys[i] = shardKey(LabelPartition(scope, label), dayPrefix(day), 0)
	}
	all := Shards{}
	items, err := l.Store.BatchGet(ctx, l.Store.Usage, keys...)
	for _, item := range items {
		shards, malformed := announcedShards(item)
		if err == nil {
			err = malformed
		}
		all.add(shards)
	}
	return all, err
}

// addShard adds the counter of one shard, row, to rows, which are by counter and then by the key of the
// shard. It ignores a key without a shard. pk is the partition of the counter's first shard.
func addShard(rows map[store.Key]map[store.Key]Counter, pk string, key store.Key, row Counter) {
	end := strings.LastIndex(key.SK, "#SH#")
	if end < 0 {
		return
	}
	ref := store.Key{PK: pk, SK: key.SK[:end+len("#SH#")]}
	if rows[ref] == nil {
		rows[ref] = map[store.Key]Counter{}
	}
	rows[ref][key] = row
}

// Mark records that a scope spent money under a label on a day.
type Mark struct{ Org, Scope, Label string }

// EachMark calls each for every mark of a day: one for each label of a scope with spend.
func (l *Ledger) EachMark(ctx context.Context, day string, each func(Mark)) error {
	return l.Store.Query(ctx, l.Store.Usage, markPartition(day), "0", "~", func(item store.Item) error {
		var d store.Decoder
		m := Mark{Org: d.String(item, "org_id"), Scope: d.String(item, store.AttrScope)}
		m.Label = strings.TrimPrefix(store.KeyOf(item).SK, LabelPartition(m.Scope, ""))
		each(m)
		return d.Err
	})
}
