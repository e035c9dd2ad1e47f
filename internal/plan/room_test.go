package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// roomView is a view of a bucket of 100 tokens that has rpm alone, under a
// configuration that has tpm as well.
func roomView(st Standing, l schema.Stored) View {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 1, Period: 1000}
	image := &schema.Image{Set: schema.NewLimitSets().Of([]string{"rpm"}), Limits: []schema.Stored{l}, Fingerprint: []byte("12345678"), HasRefilled: true}
	cfg := &Config{Fingerprint: []byte("87654321"), Limits: []Limit{{Name: "rpm", Rate: rate}, {Name: "tpm", Rate: rate}}}
	return NewView(image, cfg, st, 0)
}

// A limit that the bucket does not have has room only for a write that brings it:
// else its burst would be granted and nothing debited.
func TestLimitThatTheBucketLacksHasNoRoom(t *testing.T) {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 1, Period: 1000}
	l := schema.Stored{Rate: rate, Tokens: 40 * milli}
	asked := []Signed{{Name: "tpm", Amount: 1}}
	for _, st := range []Standing{Current, Older} {
		v := roomView(st, l)
		_, known := v.Room("tpm", 0)
		assert.False(t, known)
		assert.False(t, v.Fits(asked, nil, nil))
		room, known := v.Room("rpm", 0)
		assert.True(t, known)
		assert.Equal(t, int64(40*milli), room)
	}
	v := roomView(Newer, l)
	room, known := v.Room("tpm", 0)
	assert.True(t, known)
	assert.Equal(t, int64(100*milli), room)
	assert.True(t, v.Fits(asked, nil, nil))
	_, known = v.Room("other", 0)
	assert.False(t, known)
}

// A ghost has what it was charged, from full, and no more than full.
func TestRoomOfAGhost(t *testing.T) {
	for tokens, want := range map[int64]int64{-30 * milli: 70 * milli, 0: 100 * milli, 5 * milli: 100 * milli} {
		room, known := roomView(Newer, schema.Stored{Tokens: tokens, Ghost: true}).Room("rpm", 0)
		assert.True(t, known)
		assert.Equal(t, want, room)
	}
	room, _ := roomView(Newer, schema.Stored{Tokens: -30 * milli, Ghost: true}).Room("rpm", 10*milli)
	assert.Equal(t, int64(80*milli), room)
	_, known := roomView(Current, schema.Stored{Ghost: true}).Room("rpm", 0)
	assert.False(t, known)
}

// What is debited ahead leaves every limit at half, beside all that the write takes.
func TestLeavesHalf(t *testing.T) {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 1, Period: 1000}
	v := roomView(Current, schema.Stored{Rate: rate, Tokens: 80 * milli})
	for _, c := range []struct {
		amount, take, adjust, back int64
		leaves                     bool
	}{
		{30, 0, 0, 0, true},
		{31, 0, 0, 0, false},
		{20, 10, 0, 0, true},
		{20, 11, 0, 0, false},
		{20, 0, 10, 0, true},
		{20, 0, 11, 0, false},
		{40, 0, 0, 10, true},
		{60, 0, 0, 30, false}, // full holds no more
	} {
		carried := Sums{{Name: "rpm", Amounts: bucket.Amounts{Take: c.take * milli, Adjust: c.adjust * milli, Back: c.back * milli}}}
		assert.Equal(t, c.leaves, v.LeavesHalf([]Signed{{Name: "rpm", Amount: c.amount * milli}}, carried), "%+v", c)
	}
	assert.False(t, v.LeavesHalf([]Signed{{Name: "tpm", Amount: 1}}, nil), "a limit that the bucket lacks")
}
