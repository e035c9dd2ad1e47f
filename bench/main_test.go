package bench_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if body := os.Getenv(serverVariable); body != "" {
		os.Exit(serveStub(body))
	}
	goleak.VerifyTestMain(m)
}
