package s3archive

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMisuseIsSaid: a call without a context, or of what was never made.
func TestMisuseIsSaid(t *testing.T) {
	b := newBucket(t)
	w, err := New(s3.New(s3.Options{Region: "eu-west-1", BaseEndpoint: &b.URL}), "bucket", nil)
	require.NoError(t, err)
	var nobody context.Context
	require.ErrorContains(t, w.Put(nobody, "a", nil), "s3archive: invalid ctx: ")
	require.ErrorContains(t, (*Writer)(nil).Put(t.Context(), "a", nil), "make one with New")
	require.ErrorContains(t, new(Writer).Put(t.Context(), "a", nil), "make one with New")
	assert.Empty(t, b.requests)
}
