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

// newSpread returns the assignment of shards for a counter without transactions in flight. Each home, a place
// for one transaction in flight, has a shard of its own. Only the first shard counts as announced to readers.
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

// takeHome marks the first free home, a place for one transaction in flight with its own shard, as busy and
// returns it. It panics unless one is free. The lanes' lock must be held.
func (s *spread) takeHome() home {
	s.taken++
	i := slices.Index(s.busy[:], 0)
	s.busy[i] = s.taken
	return home{s, i, s.taken}
}

// freeHome releases the home h, so that another transaction can take it. It does nothing if h was released
// before, also if another transaction has taken the place since. It locks l.mu.
func (l *lanes) freeHome(h home) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.busy[h.index] == h.taken {
		h.busy[h.index] = 0
	}
}

// setMarked records that the day's mark of a counter is stored, so that later transactions omit it and several
// may be in flight. It locks l.mu.
func (l *lanes) setMarked(s *spread) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.marked = true
}

// shardChooser returns a function that returns this home's shard in a counter with a given number of shards:
// the home's number modulo that. A later moveHome does not change it. The lanes' lock must be held.
func (h home) shardChooser() func(shards int) int {
	shard := h.shards[h.index]
	return func(shards int) int { return shard % max(shards, 1) }
}

// spreadFor returns this process's cached assignment of shards for the counter ref, or caches a new one, which
// may evict another counter's. The lanes' lock must be held.
func (l *lanes) spreadFor(ref store.Key) *spread {
	s, ok := l.spreads.Get(ref)
	if !ok {
		s = newSpread()
		l.spreads.Add(ref, s)
	}
	return s
}

// moveHome gives the home h a random shard that no home of this process uses, after a conflict with another
// process. If all shards are in use, h exchanges its shard with another home. It locks l.mu.
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

// announceShard stores in the first shard's item that t's counter uses t's shard, so that readers read it, and
// returns t. If that write fails, it returns a transaction of the same operations on the first shard.
func (l *lanes) announceShard(ctx context.Context, t *transaction, s *spread) *transaction {
	o := t.ops[0]
	if err := l.announceOnce(ctx, o.debits[0], t.shardOf(o), o.expires, s); err != nil {
		t.draw = firstShard
		return t.composeSubset(t.ops)
	}
	return t
}

// firstShard returns 0, the number of the first shard, whatever the number of shards.
func firstShard(int) int { return 0 }

// announceOnce stores in the first shard's item that the counter of d uses a shard, and remembers that in s. It
// sends nothing if s has it already. expires is the item's expiry in Unix seconds.
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

// storeAnnouncement adds a shard's number to the list in the item of the counter's first shard. It sets the
// expiry, in Unix seconds, unless one is set. It retries without an answer; repetitions change nothing.
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

// announcedShards returns the numbers of the further shards that the item of a counter's first shard lists; nil
// without a list. A malformed number becomes 0 in the result, with an error.
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
