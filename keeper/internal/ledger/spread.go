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

// spreadsKept is of how many counters it is known which shards are announced.
const spreadsKept = 10_000

// homes are those of a lane's senders, and of adjustments.
const homes = maxSenders + 1

// spread is how this process spreads the writes of one counter over its shards. A shard beyond
// the first is a partition of its own, of which the first one's item tells (announce): so one
// that is written seldom stays in one partition, and is read with one query.
type spread struct {
	shards    [homes]int   // of each home
	busy      [homes]int64 // which transaction is in flight there; 0: none
	taken     int64        // homes so far
	announced map[int]bool
	marked    bool // a transaction with the day's mark has landed
}

func newSpread() *spread {
	s := &spread{announced: map[int]bool{0: true}}
	for i := range s.shards {
		s.shards[i] = i
	}
	return s
}

// home is where a transaction is in flight.
type home struct {
	*spread
	index int
	taken int64
}

// take takes the first that is free; there is one. The lanes' lock must be held.
func (s *spread) take() home {
	s.taken++
	i := slices.Index(s.busy[:], 0)
	s.busy[i] = s.taken
	return home{s, i, s.taken}
}

// free gives a home back, once.
func (l *lanes) free(h home) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.busy[h.index] == h.taken {
		h.busy[h.index] = 0
	}
}

// setMarked notes that the day of a counter is marked.
func (l *lanes) setMarked(s *spread) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.marked = true
}

// draw is the shard of a home. The lanes' lock must be held.
func (h home) draw() func(shards int) int {
	shard := h.shards[h.index]
	return func(shards int) int { return shard % max(shards, 1) }
}

// spreadOf is a counter's. The lanes' lock must be held.
func (l *lanes) spreadOf(ref store.Key) *spread {
	s, ok := l.spreads.Get(ref)
	if !ok {
		s = newSpread()
		l.spreads.Add(ref, s)
	}
	return s
}

// move has a home on another shard after a conflict: another process is on this one. Those of
// one process stay apart.
func (l *lanes) move(h home, shards int) {
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

// announced tells readers of the shard that a transaction is going to write, unless they know
// it. Where that fails the transaction is one on the first shard, which they always read.
func (l *lanes) announced(ctx context.Context, t *transaction, s *spread) *transaction {
	o := t.ops[0]
	if err := l.tell(ctx, o.debits[0], t.shardOf(o), o.expires, s); err != nil {
		t.draw = firstShard
		return t.of(t.ops)
	}
	return t
}

func firstShard(int) int { return 0 }

// tell tells readers of a counter's shard, once.
func (l *lanes) tell(ctx context.Context, d Debit, shard int, expires int64, s *spread) error {
	l.mu.Lock()
	told := s.announced[shard]
	l.mu.Unlock()
	if told {
		return nil
	}
	err := guard.Apart(func() error { return tellShard(ctx, l.Store, d, shard, expires) })
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.announced[shard] = true
	}
	return err
}

// tellShard adds a shard to those that the first one's item tells of. It may be sent again.
func tellShard(ctx context.Context, s *store.Store, d Debit, shard int, expires int64) error {
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

// shardsOf are the shards that the item of a first one tells of.
func shardsOf(item store.Item) (shards []int, err error) {
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
