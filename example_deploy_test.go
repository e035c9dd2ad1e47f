package dynalimit_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/awsclient"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
)

// deployed is what a process of a service makes once.
type deployed struct {
	limiter   *dynalimit.RateLimiter
	transport *llmhttp.Transport
	provider  *http.Client // of the provider's SDK
	server    *http.Server // on ECS
}

// newDeployed asks nobody: the first call reads the configuration. The table is there already.
func newDeployed(ctx context.Context, processes int) (*deployed, error) {
	client, err := awsclient.New(ctx, nil)
	if err != nil {
		return nil, err
	}
	repo, err := dynalimit.NewRepository(client, "limits", nil) // no CreateTable
	if err != nil {
		return nil, err
	}
	limiter, err := dynalimit.New(repo, &dynalimit.Options{
		OnUnavailable: dynalimit.Local,
		LocalShare:    1 / float64(processes), // the most that may run at once
	})
	if err != nil {
		return nil, err
	}
	guard, err := llm.New(&llm.Options{Limiter: limiter, Limits: map[string]llm.Measure{"rpm": llm.Requests, "tpm": llm.TotalTokens}})
	if err != nil {
		return nil, err
	}
	transport, err := llmhttp.NewTransport(nil, guard, nil)
	if err != nil {
		return nil, err
	}
	return &deployed{limiter: limiter, transport: transport, provider: &http.Client{Transport: transport}}, nil
}

// Handle is one invocation of a function on Lambda.
func (d *deployed) Handle(ctx context.Context, prompt string) (answer string, err error) {
	defer func() { // before the process is frozen: what a call really cost is settled behind its answer
		err = errors.Join(err, d.transport.Close(ctx))
	}()
	call := ctx
	if deadline, has := ctx.Deadline(); has {
		var cancel context.CancelFunc
		call, cancel = context.WithDeadline(ctx, deadline.Add(-2*time.Second)) // time to settle
		defer cancel()
	}
	return d.ask(call, prompt)
}

// Shutdown ends a process on ECS, which has 30 s from SIGTERM by default.
func (d *deployed) Shutdown(ctx context.Context) error {
	err := d.server.Shutdown(ctx)                  // no new calls, and those under way end
	err = errors.Join(err, d.transport.Close(ctx)) // settles them, and ends the guard's records
	return errors.Join(err, d.limiter.Close(ctx))  // the last: it refuses what comes after
}

// ask calls the provider through its SDK, whose HTTP client is d.provider.
func (d *deployed) ask(ctx context.Context, prompt string) (string, error) { return prompt, ctx.Err() }

// A service on Lambda or ECS.
func Example_deployed() {
	ctx := context.Background()
	d := must(newDeployed(ctx, 20))
	must(d.Handle(ctx, "Hello?"))
	check(d.Shutdown(ctx))
}
