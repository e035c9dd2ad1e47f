package main

import (
	"context"

	"github.com/aws/smithy-go/logging"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/live"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// viewing runs a view of buckets, with a meter of what its readings cost.
func (g *globals) viewing(ctx context.Context, out *term.Output, run func(*dynalimit.Repository, *live.Meter) error) error {
	o := g.options(ctx)
	cfg, err := o.Config(ctx)
	if err != nil {
		return g.explain(ctx, err)
	}
	cfg.Logger = logging.Nop{} // nothing but the view writes on its terminal
	meter := &live.Meter{DynamoDB: o.ClientOf(cfg)}
	repo, err := o.On(meter)
	if err != nil {
		return g.explain(ctx, err)
	}
	over := out.Watch(o.Where())
	err = g.registered(ctx, repo)
	over()
	if err == nil {
		err = run(repo, meter)
	}
	return g.explain(ctx, err)
}
