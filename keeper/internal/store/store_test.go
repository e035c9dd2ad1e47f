package store

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	throttled = &types.ProvisionedThroughputExceededException{Message: aws.String("slow down")}
	silent    = &types.InternalServerError{Message: aws.String("no answer")}
)

// A write that may have landed stays in doubt, whatever later tries fail with.
func TestUnansweredWriteStaysInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		err := Retry(t.Context(), func() error {
			if tries++; tries == 1 {
				return silent
			}
			return throttled
		})
		require.ErrorIs(t, err, silent)
		assert.True(t, IsUnconfirmed(err))
		assert.Equal(t, writeTries+1, tries)
		assert.False(t, IsUnconfirmed(AsReadError(silent)), "a read changes nothing")
	})
}

// A write that is refused, or wrong, is not sent again.
func TestAnsweredWriteIsNotSentAgain(t *testing.T) {
	for _, answer := range []error{nil, &types.ConditionalCheckFailedException{}, errors.New("wrong")} {
		tries := 0
		err := Retry(t.Context(), func() error {
			if tries++; tries == 1 {
				return throttled
			}
			return answer
		})
		assert.Equal(t, answer, err)
		assert.Equal(t, 2, tries, "%v", answer)
	}
}

// The first attribute that cannot be read is told, and absent ones are zero.
func TestDecoderKeepsTheFirstError(t *testing.T) {
	item := Item{"a": String("x"), "n": Int(7)}
	var d Decoder
	assert.Equal(t, "x", d.String(item, "a"))
	assert.Equal(t, int64(7), d.Int(item, "n"))
	assert.Zero(t, d.Int(item, "absent"))
	require.NoError(t, d.Err)
	d.Picos(item, "a")
	d.String(item, "n")
	require.ErrorIs(t, d.Err, ErrMalformed)
	assert.ErrorContains(t, d.Err, "attribute a")
}
