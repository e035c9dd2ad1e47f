package laws

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/laws/rules"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A write is that of its request, whatever else was sent that would change the bucket alike: a
// transaction that the slots still name, a write that did not arrive, and one that was sent later.
func TestWriteIsThatOfItsRequest(t *testing.T) {
	const operation, amount = 7, 1000
	id := make([]byte, rules.OpIDLength)
	binary.BigEndian.PutUint64(id, operation)
	item := map[string]types.AttributeValue{"op0": &types.AttributeValueMemberB{Value: id}}
	set := schema.NewLimitSets().OfKinds([]string{"rpd"}, []string{"rpd"})
	holding := func(tokens, consumed int64) *schema.Image {
		l := schema.Stored{Rate: bucket.Rate{Burst: 5 * amount, Amount: 5 * amount, Period: -1}, Tokens: tokens, Consumed: consumed, Window: 3}
		return &schema.Image{Set: set, Limits: []schema.Stored{l}}
	}
	telling := func() *sentWrite {
		return &sentWrite{tells: true, sums: plan.Rows{{Name: "rpd", Late: amount, Window: 3}}}
	}
	lost, landed, later := telling(), telling(), telling()
	o := newOracle()
	o.sent[sentKey{operation, "key"}] = &sentWrite{transaction: true, sums: plan.Rows{{Name: "rpd", Amounts: bucket.Amounts{Take: amount}}}}
	for seq, w := range []*sentWrite{lost, landed, later} {
		o.recordArrival(&ddbmem.Request{Seq: int64(seq), Context: carried{"key": w}.withContext(context.Background())})
	}
	j := newJudge(o, bounds{})
	require.Same(t, landed, j.findSent(&ddbmem.Write{RequestSeq: 1, Old: item, New: item}, "key", holding(5*amount, 0), holding(4*amount, amount)))
	require.Empty(t, j.violations)
	require.Nil(t, j.findSent(&ddbmem.Write{RequestSeq: 9, Old: item, New: item}, "key", holding(5*amount, 0), holding(4*amount, amount)), "nobody's")
	landed.refused = true
	j.findSent(&ddbmem.Write{RequestSeq: 1, Old: item, New: item}, "key", holding(5*amount, 0), holding(4*amount, amount))
	require.NotEmpty(t, j.violations, "a write that was refused does not land")
}
