package laws

import (
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

// A quota is charged what an outage counted, and its slots still name a transaction of as much. The
// write is that of the outage: it has told what waits, and the transaction did not land again.
func TestWriteOfWhatAnOutageCountedIsNoTransaction(t *testing.T) {
	const operation, amount = 7, 1000
	id := make([]byte, rules.OpIDLength)
	binary.BigEndian.PutUint64(id, operation)
	item := map[string]types.AttributeValue{"op0": &types.AttributeValueMemberB{Value: id}}
	set := schema.NewLimitSets().OfKinds([]string{"rpd"}, []string{"rpd"})
	holding := func(tokens, consumed int64) *schema.Image {
		l := schema.Stored{Rate: bucket.Rate{Burst: 5 * amount, Amount: 5 * amount, Period: -1}, Tokens: tokens, Consumed: consumed, Window: 3}
		return &schema.Image{Set: set, Limits: []schema.Stored{l}}
	}
	told := &sentWrite{tells: true, sums: plan.Sums{{Name: "rpd", Late: amount}}}
	j := newJudge(newOracle(), bounds{})
	j.oracle.sent[sentKey{operation, "key"}] = &sentWrite{transaction: true, sums: plan.Sums{{Name: "rpd", Amounts: bucket.Amounts{Take: amount}}}}
	j.oracle.told["key"] = []*sentWrite{told}
	require.Same(t, told, j.sender(&ddbmem.Write{Old: item, New: item}, "key", holding(5*amount, 0), holding(4*amount, amount)))
	require.Empty(t, j.oracle.told["key"])
}

// A write that was refused, and was to change as much as one that landed, is not taken for it.
func TestRefusedWriteIsNotTakenForTheOneThatLanded(t *testing.T) {
	set := schema.NewLimitSets().OfKinds([]string{"rpd"}, []string{"rpd"})
	holding := func(tokens, consumed int64) *schema.Image {
		l := schema.Stored{Rate: bucket.Rate{Burst: 5000, Amount: 5000, Period: -1}, Tokens: tokens, Consumed: consumed, Window: 3}
		return &schema.Image{Set: set, Limits: []schema.Stored{l}}
	}
	of := func(window bucket.WindowID) *sentWrite {
		return &sentWrite{tells: true, sums: plan.Sums{{Name: "rpd", Amounts: bucket.Amounts{Back: 1000}, Window: window}}}
	}
	refused, earlier, landed := of(3), of(2), of(3)
	refused.refused = true
	j := newJudge(newOracle(), bounds{})
	j.oracle.told["key"] = []*sentWrite{refused, earlier, landed}
	require.Same(t, landed, j.teller("key", holding(3000, 2000), holding(4000, 1000)))
	require.Equal(t, []*sentWrite{refused, earlier}, j.oracle.told["key"])
}
