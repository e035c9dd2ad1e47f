package lambda_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/lambda"
)

// embeddedLine is what the metrics of a batch look like in the log.
func embeddedLine(t *testing.T, observe func(io.Writer, string) func(lambda.Report)) []byte {
	t.Helper()
	var log bytes.Buffer
	observe(&log, "limits")(lambda.Report{
		At: time.Unix(noon, 0), Records: 10, Age: 2500 * time.Millisecond, Counted: 1, Repeated: 2, Ignored: 3, Skipped: 4, Again: 5, Gaps: 6,
	})
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")))
	return log.Bytes()
}
