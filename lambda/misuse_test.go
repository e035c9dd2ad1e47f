package lambda_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/lambda"
)

// TestMisuseIsSaid: a call without a context, of what was never made, or with a closer that is
// a nil pointer.
func TestMisuseIsSaid(t *testing.T) {
	process := func(context.Context, []aggregator.Record) (aggregator.Result, error) { return aggregator.Result{}, nil }
	h, err := lambda.NewHandler(process, nil, nil)
	require.NoError(t, err)
	var nobody context.Context
	records := []byte(`{"Records":[]}`)
	_, err = h.Invoke(nobody, records)
	require.ErrorContains(t, err, "ctx is nil")
	_, err = (*lambda.Handler)(nil).Invoke(t.Context(), records)
	require.ErrorContains(t, err, "make one with NewHandler")
	_, err = new(lambda.Handler).Invoke(t.Context(), records)
	require.ErrorContains(t, err, "make one with NewHandler")
	_, err = lambda.NewHandler(process, (*aggregator.Closer)(nil), nil)
	require.ErrorContains(t, err, "closer is a nil *aggregator.Closer")
	assert.NotPanics(t, func() { lambda.EmbeddedMetrics(nil, "limits")(lambda.Report{Records: 1}) })
}

// TestProcessPanics: the panic is the caller's, who has the whole batch come again.
func TestProcessPanics(t *testing.T) {
	h, err := lambda.NewHandler(func(context.Context, []aggregator.Record) (aggregator.Result, error) { panic("oh") }, nil, nil)
	require.NoError(t, err)
	assert.PanicsWithValue(t, "oh", func() {
		_, _ = h.Invoke(t.Context(), []byte(`{"Records":[{"eventID":"1","dynamodb":{"SequenceNumber":"1","Keys":{"PK":{"S":"a"}}}}]}`))
	})
}
