package laws

import (
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/laws/rules"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// clashes counts how often a client was refused by a full bucket, by entity.
type clashes struct {
	mu sync.Mutex
	by map[string]int
}

func (c *clashes) at(entity string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[entity]
}

// note counts a refused update if it met a limit that was full for what it gave
// back, or no longer full.
func (c *clashes) note(entity string, st schema.Statement, image *schema.Image) {
	if image == nil {
		return
	}
	for _, bound := range rules.Clauses(st) {
		i := image.Set.Index(strings.TrimSuffix(strings.TrimPrefix(bound.Attribute, "b_"), "_tk"))
		if !rules.IsTokens(bound.Attribute) || i < 0 {
			continue
		}
		places := rules.Placeholder.FindAllString(bound.Text, -1)
		last, bounded := st.Values[places[len(places)-1]].(*types.AttributeValueMemberN)
		if !bounded {
			continue
		}
		value, _ := strconv.ParseInt(last.Value, 10, 64)
		tokens, filling := image.Limits[i].Tokens, strings.Contains(st.Update, places[0]+" = ")
		if filling && tokens < value || !filling && !strings.Contains(bound.Text, " >= ") && tokens > value {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.by[entity]++
			return
		}
	}
}

// mayForgo is the most that a write may put a full bucket below its burst: nothing
// from a client that was never refused at full, at first what is refilled in 32 ms
// or 64 by a rate it has or had, and never more than an eighth of what the take leaves.
func (w *sentWrite) mayForgo(burst int64, fastest bucket.Rate, take int64) int64 {
	switch w.clashes {
	case 0:
		return 0
	case 1, 2:
		return min(fastest.RefilledIn(32_000<<(w.clashes-1)), burst/32, (burst-take)/8)
	}
	return (burst - take) / 8
}

// holds checks that a bucket without faults is worth burst − queue, exactly unless
// clients collided at full: then a write may forgo a slack, once, which is refilled.
func (j *judge) holds(w *ddbmem.Write, sent *sentWrite, name string, take int64, t *truth, s bucket.State, at int64) {
	forgone := s.Burst - t.queue - s.Level(at)
	if forgone < 0 || forgone > t.forgone && forgone > sent.mayForgo(s.Burst, t.fastest, take) {
		j.fail(w, "L2: %s is worth %d, not %d, after %d refusals at full", name, s.Level(at), s.Burst-t.queue, sent.clashes)
	}
	if forgone > t.forgone {
		j.tally["forgone"]++
	}
	t.forgone = forgone
}
