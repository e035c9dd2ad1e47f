package dynalimit

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(endpointVariable) == "" {
		fmt.Fprintln(os.Stderr, "NOTE: "+endpointVariable+" is not set: these tests run on ddbmem alone, on no third-party engine (make test-engine runs them on one)")
	}
	goleak.VerifyTestMain(m)
}
