package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/manifest"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/zae"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// zaeSource is the flags that name a table of zae-limiter.
type zaeSource struct {
	FromZae       string `help:"Read this table of zae-limiter instead. Nothing is written to it." placeholder:"TABLE"`
	FromNamespace string `help:"Namespace of the table of zae-limiter. Default: default." placeholder:"NAME"`
}

// exportZae prints the manifest of a table of zae-limiter, from --from-namespace or the default namespace of
// that table. It notes each part that the manifest lacks or expresses differently. If parts are missing, it
// fails with exitNo after printing.
func (c manifestExportCmd) exportZae(ctx context.Context, g *globals, out *term.Output) error {
	source := *g
	source.Table, source.Namespace = c.FromZae, ""
	o := source.connectOptions(ctx)
	over := out.Watch(o.Where())
	read, err := c.readZae(ctx, &source, out)
	over()
	if err != nil {
		return source.explainError(ctx, err)
	}
	t := read.Translate(cmp.Or(c.Name, manifest.DefaultName), g.Namespace)
	if c.FromNamespace == "" {
		for _, other := range read.Others {
			t.Lacks = append(t.Lacks, fmt.Sprintf("namespace %s: write a manifest of its own with --from-namespace %s", other, other))
		}
	}
	comments := []string{
		fmt.Sprintf("Limits and entities of zae-limiter's table %s, layout %s, written by 'dynalimit manifest export'.", read.Table, cmp.Or(read.Layout, "unknown")),
		"Buckets are not in it: they begin full. docs/from-zae-limiter.md lists the differences.",
	}
	for _, text := range t.Lacks {
		comments = append(comments, "Not in it: "+text)
		out.Notef("dynalimit: not in the manifest: %s", term.Plain(text))
	}
	for _, text := range t.Differs {
		comments = append(comments, "Said in another way: "+text)
		out.Notef("dynalimit: said in another way: %s", term.Plain(text))
	}
	if out.JSON {
		err = manifest.WriteJSON(out, t.Manifest)
	} else {
		err = manifest.Write(out, t.Manifest, comments, nil)
	}
	if err == nil && len(t.Lacks) > 0 {
		return &failure{exitNo, fmt.Errorf("the manifest lacks %s of the table: follow the advice for each, then apply it", notation.CountText(len(t.Lacks), "thing"))}
	}
	return err
}

// readZae reads the limits and entities of the table of zae-limiter, and notes the progress. It fails with
// advice if the table is missing. It writes nothing.
func (c manifestExportCmd) readZae(ctx context.Context, source *globals, out *term.Output) (*zae.Source, error) {
	client, err := source.connectOptions(ctx).Client(ctx)
	if err != nil {
		return nil, err
	}
	far := source.newProgress(ctx, out)
	read, err := zae.Read(ctx, client, c.FromZae, c.FromNamespace, func(read, kept int64) {
		far.reportPass(1, read, fmt.Sprintf("%d of limits and entities", kept))
	})
	if missing, is := errors.AsType[*fault.TableError](err); is && missing.Fix == fault.CreateTable {
		return nil, fmt.Errorf("table %q is not there: name that of zae-limiter with --from-zae, and its Region with --region", c.FromZae)
	}
	return read, err
}
