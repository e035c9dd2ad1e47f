package ledger

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// readScope reads the counters of n's labels on n's day. The result is by counter (partition and prefix) and
// then by the key of the shard. It sends one query per label and one per further shard, and updates no board.
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

// add adds the numbers of shards to the set s, in place.
func (s Shards) add(shards []int) {
	for _, shard := range shards {
		s[shard] = true
	}
}

// ReadShards calls each, one call at a time, for every counter of the partition pk with a sort key between from
// and to. It also reads further shards: those that pk's items announce, and those in also. Every write that
// landed before is included.
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

// ShardsOf reads which shards beside the first the labels' counters of a day use, and returns their numbers as
// one set for all labels. With an error the set may be incomplete.
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

// addShard sets row as one shard's counter in rows, by counter and then by the shard's key. pk is the partition
// of the counter's first shard. It ignores a key without a shard number.
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

// EachMark reads the marks of a day, of all organisations, and calls each for every one: a scope with spend
// under a label. It stops at the first malformed mark, after the call for it, and returns the error.
func (l *Ledger) EachMark(ctx context.Context, day string, each func(Mark)) error {
	return l.Store.Query(ctx, l.Store.Usage, markPartition(day), "0", "~", func(item store.Item) error {
		var d store.Decoder
		m := Mark{Org: d.String(item, "org_id"), Scope: d.String(item, store.AttrScope)}
		m.Label = strings.TrimPrefix(store.KeyOf(item).SK, LabelPartition(m.Scope, ""))
		each(m)
		return d.Err
	})
}
