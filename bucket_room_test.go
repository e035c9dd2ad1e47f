package dynalimit

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// roomView is a view of a bucket of 100 tokens that has rpm alone, under a
// configuration that has tpm as well.
func roomView(st standing, l schema.Stored) view {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 1, Period: 1000}
	image := &schema.Image{Set: schema.NewLimitSets().Of([]string{"rpm"}), Limits: []schema.Stored{l}, Fingerprint: []byte("12345678"), HasRefilled: true}
	cfg := &bucketConfig{fingerprint: []byte("87654321"), limits: []configured{{name: "rpm", rate: rate}, {name: "tpm", rate: rate}}}
	return newView(image, cfg, st, 0)
}

// A limit that the bucket does not have has room only for a write that brings it:
// else its burst would be granted and nothing debited.
func TestLimitThatTheBucketLacksHasNoRoom(t *testing.T) {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 1, Period: 1000}
	l := schema.Stored{Rate: rate, Tokens: 40 * milli}
	ask := op{take: true, amounts: []signed{{"tpm", 1}}}
	for _, st := range []standing{current, older} {
		v := roomView(st, l)
		_, known := v.room("tpm", 0)
		assert.False(t, known)
		assert.False(t, ask.fits(v, nil, nil))
		room, known := v.room("rpm", 0)
		assert.True(t, known)
		assert.Equal(t, int64(40*milli), room)
	}
	v := roomView(newer, l)
	room, known := v.room("tpm", 0)
	assert.True(t, known)
	assert.Equal(t, int64(100*milli), room)
	assert.True(t, ask.fits(v, nil, nil))
	_, known = v.room("other", 0)
	assert.False(t, known)
}

// A ghost has what it was charged, from full, and no more than full.
func TestRoomOfAGhost(t *testing.T) {
	for tokens, want := range map[int64]int64{-30 * milli: 70 * milli, 0: 100 * milli, 5 * milli: 100 * milli} {
		room, known := roomView(newer, schema.Stored{Tokens: tokens, Ghost: true}).room("rpm", 0)
		assert.True(t, known)
		assert.Equal(t, want, room)
	}
	room, _ := roomView(newer, schema.Stored{Tokens: -30 * milli, Ghost: true}).room("rpm", 10*milli)
	assert.Equal(t, int64(80*milli), room)
	_, known := roomView(current, schema.Stored{Ghost: true}).room("rpm", 0)
	assert.False(t, known)
}
