package aggregator_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// onUpdate does something before the n-th update that is made from now on.
func onUpdate(db *ddbmem.DB, n int64, do func() ddbmem.Fault) {
	var updates atomic.Int64
	db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		if q.Operation == "UpdateItem" && updates.Add(1) == n {
			return do()
		}
		return ddbmem.Fault{}
	})
}

// TestOverlappingBatchesAtOnce: processors that have the same records, from the first on,
// count each once between them, and see no gap.
func TestOverlappingBatchesAtOnce(t *testing.T) {
	for range 10 {
		db, p := newTable(t, nil)
		records := []aggregator.Record{record(1, noon, -1, 10)}
		for i := range int64(39) {
			records = append(records, record(int(i)+2, noon.Add(time.Duration(i)*3*time.Minute), 10*i+10, 10*i+20))
		}
		var all sync.WaitGroup
		var counted atomic.Int64
		for who := range 4 {
			all.Go(func() {
				for to := 1 + who; to < len(records)+3+who; to += 3 + who {
					r, err := p.Process(context.Background(), records[:min(to, len(records))])
					assert.NoError(t, err)
					assert.Empty(t, r.Gaps)
					counted.Add(int64(r.Counted))
				}
			})
		}
		all.Wait()
		got, missing := usage(t, db)
		sum := int64(0)
		for _, n := range got {
			sum += n
		}
		assert.EqualValues(t, 400, sum)
		assert.EqualValues(t, 40, counted.Load())
		assert.Empty(t, missing)
	}
}

// TestSnapshotThatGoesMeanwhile: one that expires between a refusal and what follows it
// begins anew, with nothing from what was there.
func TestSnapshotThatGoesMeanwhile(t *testing.T) {
	db, p := newTable(t, nil)
	process(t, p, record(1, noon, -1, 5), record(2, noon, 5, 6))
	onUpdate(db, 2, func() ddbmem.Fault {
		_, err := db.Client().DeleteItem(context.Background(), &dynamodb.DeleteItemInput{TableName: aws.String("limits"), Key: snapshotKey("key-1", "gpt-4", noon)})
		assert.NoError(t, err)
		return ddbmem.Fault{}
	})
	gap := aggregator.Gap{Entity: "key-1", Resource: "gpt-4", Limit: "rpm", Hour: noon, Missing: 3}
	assert.Equal(t, aggregator.Result{Counted: 2, Gaps: []aggregator.Gap{gap}}, process(t, p, record(3, noon, 7, 8), record(5, noon, 11, 12)), "only what is between the two")
	got, missing := usage(t, db)
	assert.Equal(t, map[spent]int64{key1: 2}, got)
	assert.Equal(t, map[string]int64{"#USAGE#gpt-4#2026-03-29T12:00:00Z rpm m": 3}, missing)
}

// TestGapWhoseAnswerIsLost: it is stored once and told once.
func TestGapWhoseAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, p := newTable(t, nil)
		process(t, p, record(1, noon, -1, 5))
		onUpdate(db, 2, func() ddbmem.Fault { return ddbmem.Fault{Lose: true} })
		gap := aggregator.Gap{Entity: "key-1", Resource: "gpt-4", Limit: "rpm", Hour: noon, Missing: 2}
		assert.Equal(t, aggregator.Result{Counted: 1, Gaps: []aggregator.Gap{gap}}, process(t, p, record(3, noon, 7, 9)))
		assert.Equal(t, aggregator.Result{Repeated: 1}, process(t, p, record(3, noon, 7, 9)))
		_, missing := usage(t, db)
		assert.Equal(t, map[string]int64{"#USAGE#gpt-4#2026-03-29T12:00:00Z rpm m": 2}, missing)
	})
}

// TestNamespacesAreApart: so are buckets of the same entity and resource in two of them.
func TestNamespacesAreApart(t *testing.T) {
	db, p := newTable(t, nil)
	there := record(1, noon, -1, 7)
	there.Keys["PK"] = &types.AttributeValueMemberS{Value: "eu/ENTITY#key-1"}
	assert.Equal(t, aggregator.Result{Counted: 2}, process(t, p, record(1, noon, -1, 5), there))
	counts := map[string]string{}
	for _, item := range scan(t, db) {
		counts[text(item, "PK")] = item["u_rpm_n"].(*types.AttributeValueMemberN).Value
		assert.Equal(t, strings.HasPrefix(text(item, "PK"), "eu/"), strings.HasPrefix(text(item, "GSI3PK"), "eu/"), "listed where nobody of the namespace looks")
	}
	assert.Equal(t, map[string]string{"ENTITY#key-1": "5", "eu/ENTITY#key-1": "7"}, counts)
}
