package laws

import (
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/laws/rules"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// clashes counts how often a full bucket refused a client, by entity.
type clashes struct {
	mu sync.Mutex
	by map[string]int
}

// countOf returns how many updates of an entity's bucket countRefused has counted for this client.
func (c *clashes) countOf(entity string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[entity]
}

// countRefused counts an update that the bucket refused because a limit was too full for the give-back, or no
// longer full. It reads the bucket from image; nil counts nothing.
func (c *clashes) countRefused(entity string, st schema.Statement, image *schema.Image) {
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
