// Command llm shows model calls under a rate limit and a budget at once: a
// streamed reply that is metered and settled, a client that hangs up, a denial
// that costs nothing, a label that is spent, and a process that dies.
//
//	go run ./examples/llm
//
// It needs nothing but Go: DynamoDB runs in this process (package ddbmem). Read
// tour.go: each scene is what a service would write.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, newScreen(os.Stdout, os.Getenv))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "llm:", err)
		os.Exit(1)
	}
}
