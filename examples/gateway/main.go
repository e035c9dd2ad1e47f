// Command gateway is an OpenAI-compatible gateway in front of a fake provider; docs/gateway.md
// describes it. It needs nothing but Go: DynamoDB runs in the process.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/dynalimit/dynalimit/awsclient"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/llm/llmtest"
)

//go:embed help.txt
var help string

// main serves the gateway until an interrupt. Without -endpoint it uses a store in this process,
// with the limits of limits.yaml.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	floor := make([]byte, 32<<20) // nobody touches it: without it the collector runs again after every 4 MB, some 60 calls
	defer runtime.KeepAlive(floor)
	listen := flag.String("listen", "127.0.0.1:8080", "where to serve")
	local := httptest.NewServer(ddbmem.New()).URL
	store := flag.String("endpoint", local, "the `URL` of a store with limits; one in this process has those of limits.yaml")
	fake := httptest.NewServer(new(llmtest.Provider)).URL
	provider := flag.String("provider", fake, "the `URL` of the provider, whose key is $PROVIDER_KEY; one in this process is a fake")
	flag.Parse()
	client := awsclient.FromConfig(aws.Config{ // with AWS: awsclient.New(ctx, nil)
		BaseEndpoint: store, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
	g := newGateway(client, must(url.Parse(*provider)), os.Getenv("PROVIDER_KEY"))
	password := cmp.Or(os.Getenv("CONSOLE_PASSWORD"), rand.Text())
	g.serveConsole(client, password)
	if *store == local {
		must(0, g.repo.CreateTable(ctx))
		fmt.Fprintln(os.Stderr, "gateway: storing limits.yaml; the first start builds the command for that, for a minute or so")
		applied, err := exec.CommandContext(ctx, "go", "run", "./cmd/dynalimit", "manifest", "apply", "examples/gateway/limits.yaml", "--yes", "--endpoint", *store).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s%w: the limits are in the clone of dynalimit: start it there, or with -endpoint", applied, err)
		}
		must(0, err)
		fmt.Fprintln(os.Stderr, string(applied))
	}
	listener := must(new(net.ListenConfig).Listen(ctx, "tcp", *listen))
	server := &http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second}
	closed := make(chan error, 1)
	context.AfterFunc(ctx, func() { closed <- server.Shutdown(context.WithoutCancel(ctx)) })
	fmt.Print(strings.NewReplacer("{listen}", listener.Addr().String(), "{store}", *store, "{password}", password).Replace(help))
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		must(0, err)
	}
	must(0, errors.Join(<-closed, g.Close(context.WithoutCancel(ctx))))
}

// must returns v, or prints err and exits.
func must[T any](v T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
	return v
}
