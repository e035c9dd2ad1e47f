package ledger

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// spreadsKept is the maximal number of counters with cached announcements.
const spreadsKept = 10_000

// homes is the number of homes of a counter: one per sender of the lane, and one for
// adjustments.
const homes = maxSenders + 1

// spread assigns this process's writes of one counter to shards. A shard beyond the first has
// its own partition and is announced in the item of the first shard (see announceShard). So a
// counter with few writes stays in one partition, and one query reads it.
type spread struct {
	shards    [homes]int   // shard of each home
	busy      [homes]int64 // transaction in flight at each home; 0: none
	taken     int64        // number of homes taken so far
	announced map[int]bool
	marked    bool // a transaction with the day's mark has landed
}

// newSpread returns the spread of a counter over its shards. Each home, a place for one transaction in
// flight, has a distinct shard. Only the first shard is announced to readers.
func newSpread() *spread {
	s := &spread{announced: map[int]bool{0: true}}
	for i := range s.shards {
		s.shards[i] = i
	}
	return s
}

// home is a slot for one transaction in flight. Each has its own shard.
type home struct {
	*spread
	index int
	taken int64
}

// takeHome takes the first free home, a slot for one transaction in flight with its own shard. At least one is
// free. The lanes' lock must be held.
func (s *spread) takeHome() home {
	s.taken++
	i := slices.Index(s.busy[:], 0)
	s.busy[i] = s.taken
	return home{s, i, s.taken}
}

// freeHome releases a home for the next transaction. It does nothing if the home was released or
// taken again.
func (l *lanes) freeHome(h home) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.busy[h.index] == h.taken {
		h.busy[h.index] = 0
	}
}

// setMarked records that the day of a counter is marked.
func (l *lanes) setMarked(s *spread) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.marked = true
}

// shardChooser returns a function that chooses the shard of this home in a counter, by the counter's number of
// shards. The lanes' lock must be held.
func (h home) shardChooser() func(shards int) int {
	shard := h.shards[h.index]
	return func(shards int) int { return shard % max(shards, 1) }
}

// spreadFor returns the spread, the use of shards, of a counter. It makes and caches a new one if none is
// cached. The lanes' lock must be held.
func (l *lanes) spreadFor(ref store.Key) *spread {
	s, ok := l.spreads.Get(ref)
	if !ok {
		s = newSpread()
		l.spreads.Add(ref, s)
	}
	return s
}

// moveHome gives the home h another of the counter's shards, at random, after its transaction has conflicted
// with another process. If this process uses all shards, two homes exchange theirs. The shards of one process
// stay distinct.
func (l *lanes) moveHome(h home, shards int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := h.shards[:min(shards, maxSenders)]
	var others []int
	for shard := range shards {
		if !slices.Contains(own, shard) {
			others = append(others, shard)
		}
	}
	if len(others) > 0 {
		h.shards[h.index] = others[rand.IntN(len(others))]
		return
	}
	other := rand.IntN(len(own))
	h.shards[h.index], h.shards[other] = h.shards[other], h.shards[h.index]
}

// announceShard lists the shard of a transaction for readers, unless it is listed already, and returns the
// transaction. If that fails, it returns one with the same operations on the first shard, which readers always
// read.
func (l *lanes) announceShard(ctx context.Context, t *transaction, s *spread) *transaction {
	o := t.ops[0]
	if err := l.announceOnce(ctx, o.debits[0], t.shardOf(o), o.expires, s); err != nil {
		t.draw = firstShard
		return t.composeSubset(t.ops)
	}
	return t
}

// firstShard is a shard chooser that always chooses the first shard.
func firstShard(int) int { return 0 }

// announceOnce stores that a counter uses a shard, unless this process has done so. It sends
// nothing then.
func (l *lanes) announceOnce(ctx context.Context, d Debit, shard int, expires int64, s *spread) error {
	l.mu.Lock()
	told := s.announced[shard]
	l.mu.Unlock()
	if told {
		return nil
	}
	err := guard.Apart(func() error { return storeAnnouncement(ctx, l.Store, d, shard, expires) })
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.announced[shard] = true
	}
	return err
}

// storeAnnouncement adds a shard to the announced shards in the first shard's item. It is safe to
// repeat.
func storeAnnouncement(ctx context.Context, s *store.Store, d Debit, shard int, expires int64) error {
	return store.Retry(ctx, func() error {
		_, err := s.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.Usage, Key: shardKey(d.PK, d.Prefix, 0).Attributes(),
			UpdateExpression:         aws.String("SET #ttl = if_not_exists(#ttl, :ttl) ADD #s :s"),
			ExpressionAttributeNames: map[string]string{"#s": attrShards, "#ttl": store.AttrTTL},
			ExpressionAttributeValues: store.Item{
				":s": &types.AttributeValueMemberNS{Value: []string{strconv.Itoa(shard)}}, ":ttl": store.Int(expires),
			},
		}, store.Once)
		return err
	})
}

// announcedShards decodes the numbers of the further shards that the first shard's item lists. It
// is nil if there are none.
func announcedShards(item store.Item) (shards []int, err error) {
	var d store.Decoder
	told, ok := item[attrShards].(*types.AttributeValueMemberNS)
	if !ok {
		if item[attrShards] != nil {
			d.Fail(attrShards)
		}
		return nil, d.Err
	}
	for _, text := range told.Value {
		shard, err := strconv.Atoi(text)
		if err != nil {
			d.Fail(attrShards)
		}
		shards = append(shards, shard)
	}
	return shards, d.Err
}
