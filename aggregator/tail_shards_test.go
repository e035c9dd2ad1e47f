package aggregator_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
)

// TestTakeOverFromTheDead: who holds the lease is killed with its hands full. The other has all
// shards within the lease, its margin and a look, and nothing is lost or counts twice.
func TestTakeOverFromTheDead(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		require.NoError(t, h.db.SplitStream("limits", 8))
		a := h.tail(aggregator.TailOptions{Holder: "a"})
		after(700 * time.Millisecond)
		b := h.tail(aggregator.TailOptions{Holder: "b"})
		after(time.Minute)
		assert.Equal(t, []int{8, 0}, []int{a.shards(), b.shards()}, "one stands by")
		h.spend(keys(40)...)
		after(90 * time.Second)
		require.EqualValues(t, 40, h.total())
		h.spend(keys(40)...)
		after(5 * time.Second)
		a.kill()
		lease := h.remembered("#LEASE")["#LEASE"]
		assert.Equal(t, "a", text(lease, "holder"))
		free := time.UnixMilli(number(t, lease["lease_until"])).Add(5 * time.Second)
		assert.LessOrEqual(t, time.Until(free), 35*time.Second)
		h.spend(keys(40)...)
		for b.shards() < 8 {
			require.True(t, time.Now().Before(free.Add(2*time.Second+100*time.Millisecond)))
			after(100 * time.Millisecond)
		}
		assert.True(t, time.Now().After(free))
		h.spend(keys(40)...)
		after(time.Minute + 5*time.Second)
		assert.EqualValues(t, 160, h.total())
		<-a.done
		b.end(t)
		assert.Empty(t, b.disordered)
	})
}

// TestHandOver: one that stops processes what it has gathered, and the other has its shards
// at its next look.
func TestHandOver(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		require.NoError(t, h.db.SplitStream("limits", 4))
		a := h.tail(aggregator.TailOptions{})
		after(time.Second)
		b := h.tail(aggregator.TailOptions{})
		after(time.Minute)
		h.spend(keys(20)...)
		after(5 * time.Second)
		require.Zero(t, h.total())
		stopped := time.Now()
		a.end(t)
		assert.Zero(t, time.Since(stopped))
		assert.EqualValues(t, 20, h.total())
		assert.Equal(t, 4, a.states()[aggregator.ShardReleased])
		after(2 * time.Second)
		assert.Equal(t, 4, b.shards())
		h.spend(keys(20)...)
		after(2 * time.Second)
		b.end(t)
		assert.EqualValues(t, 40, h.total())
		assert.Empty(t, append(a.disordered, b.disordered...))
	})
}

// TestShardsThatSplit: children are read after their parents, while records come and one tail
// takes over from the other.
func TestShardsThatSplit(t *testing.T) {
	t.Parallel()
	inHarbor(t, func(t *testing.T, h *harbor) {
		a, b := h.tail(aggregator.TailOptions{}), h.tail(aggregator.TailOptions{FoldEvery: -1})
		want := int64(0)
		for i := range 12 {
			h.spend(keys(15)...)
			want += 15
			after(time.Duration(i) * time.Second)
			require.NoError(t, h.db.SplitStream("limits", 1+i%2))
			if i == 6 {
				a.end(t)
			}
		}
		h.spend(keys(15)...)
		after(3 * time.Minute)
		assert.EqualValues(t, want+15, h.total())
		assert.Equal(t, 1+1+2+2+4+4+8+8+16+16+32+32, a.states()[aggregator.ShardFinished]+b.states()[aggregator.ShardFinished])
		assert.Equal(t, 64, b.shards())
		assert.Empty(t, append(a.disordered, b.disordered...))
		b.end(t)
	})
}

// stream turns the table's stream on or off.
func (h *harbor) stream(on bool) {
	h.t.Helper()
	spec := &types.StreamSpecification{StreamEnabled: &on}
	if on {
		spec.StreamViewType = types.StreamViewTypeNewAndOldImages
	}
	_, err := h.db.Client().UpdateTable(h.t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String("limits"), StreamSpecification: spec})
	require.NoError(h.t, err)
}

// TestStreamThatIsReplaced: what the old one still has is read before the new one.
func TestStreamThatIsReplaced(t *testing.T) {
	inHarbor(t, func(t *testing.T, h *harbor) {
		h.spend(1)
		a := h.tail(aggregator.TailOptions{})
		after(10 * time.Second)
		h.spend(1)
		a.kill()
		h.spend(1)
		h.stream(false)
		h.stream(true)
		h.spend(1)
		b := h.tail(aggregator.TailOptions{})
		after(2 * time.Minute)
		assert.EqualValues(t, 4, h.total())
		assert.Empty(t, b.disordered)

		h.spend(1)
		h.stream(false)
		after(time.Minute)
		require.NotEmpty(t, b.retries)
		assert.ErrorIs(t, b.retries[len(b.retries)-1].Err, fault.ErrTable)
		h.stream(true)
		h.spend(1)
		after(2 * time.Minute)
		assert.EqualValues(t, 6, h.total())
		b.end(t)
	})
}

// TestTableWithoutAStream: Run fails at once, and says what to do.
func TestTableWithoutAStream(t *testing.T) {
	for view, want := range map[types.StreamViewType]string{"": "--stream-specification StreamEnabled=true,StreamViewType=NEW_AND_OLD_IMAGES", types.StreamViewTypeNewImage: "view NEW_IMAGE"} {
		db := ddbmem.New()
		t.Cleanup(db.Close)
		spec := &types.StreamSpecification{StreamEnabled: aws.Bool(view != ""), StreamViewType: view}
		repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
		require.NoError(t, err)
		in := repo.TableInput()
		in.StreamSpecification = spec
		_, err = db.Client().CreateTable(t.Context(), in)
		require.NoError(t, err)
		tail, err := aggregator.NewTail(db.StreamsClient(), db.Client(), "limits", ignore, nil)
		require.NoError(t, err)
		err = tail.Run(t.Context())
		require.ErrorIs(t, err, fault.ErrTable, view)
		assert.ErrorContains(t, err, want)
	}
	db := ddbmem.New()
	tail, err := aggregator.NewTail(db.StreamsClient(), db.Client(), "limits", ignore, nil)
	require.NoError(t, err)
	assert.ErrorIs(t, tail.Run(t.Context()), fault.ErrTable, "there is no table")
}

func ignore(context.Context, []aggregator.Record) (aggregator.Result, error) {
	return aggregator.Result{}, nil
}
