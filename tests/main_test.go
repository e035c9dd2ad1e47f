package tests

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/internal/testworld"
)

func TestMain(m *testing.M) {
	if os.Getenv(testworld.Endpoint) == "" {
		fmt.Fprintln(os.Stderr, "NOTE: "+testworld.Endpoint+" is not set: these tests run on ddbmem alone, on no third-party engine (make test-engine runs them on one)")
	}
	goleak.VerifyTestMain(m)
}
