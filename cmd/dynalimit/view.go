package main

import (
	"context"

	"github.com/aws/smithy-go/logging"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/live"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// viewBuckets calls run with the table and a meter that counts the read units of its requests, and adds advice
// to the error. It does not call run if the namespace is not registered.
func (g *globals) viewBuckets(ctx context.Context, out *term.Output, run func(*dynalimit.Repository, *live.Meter) error) error {
	o := g.connectOptions(ctx)
	cfg, err := o.Config(ctx)
	if err != nil {
		return g.explainError(ctx, err)
	}
	cfg.Logger = logging.Nop{} // only the view may write to the terminal
	meter := &live.Meter{DynamoDB: o.ClientOf(cfg)}
	repo, err := o.WithClient(meter)
	if err != nil {
		return g.explainError(ctx, err)
	}
	over := out.Watch(o.Where())
	err = g.checkRegistered(ctx, repo)
	over()
	if err == nil {
		err = run(repo, meter)
	}
	return g.explainError(ctx, err)
}
