package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/manifest"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// manifestCmd manages limits as code.
type manifestCmd struct {
	Plan     manifestPlanCmd     `cmd:"" help:"Show the changes of 'manifest apply', and manual changes."`
	Apply    manifestApplyCmd    `cmd:"" help:"Change the table to match a manifest."`
	Export   manifestExportCmd   `cmd:"" help:"Print the manifest of the table."`
	Validate manifestValidateCmd `cmd:"" help:"Check a manifest without a table."`
	Schema   manifestSchemaCmd   `cmd:"" help:"Print the JSON Schema of manifests, for editors."`
}

// manifestFile is the argument with the manifest.
type manifestFile struct {
	File string `arg:"" help:"The manifest, a YAML file; - is the standard input."`
}

// fileName returns the path of the manifest for errors, or "standard input".
func (f manifestFile) fileName() string {
	if f.File == "-" {
		return "standard input"
	}
	return f.File
}

// shortName returns the manifest's file name without its folder, or "the manifest" for standard
// input.
func (f manifestFile) shortName() string {
	if f.File == "-" {
		return "the manifest"
	}
	return filepath.Base(f.File)
}

// readFile reads and parses the manifest of the argument, or of standard input for "-". An unreadable file is
// bad input. Problems of the manifest are a failure with exitUsage that wraps manifest.Problems.
func (f manifestFile) readFile() (*manifest.Manifest, error) {
	in := io.Reader(os.Stdin)
	if f.File != "-" {
		file, err := os.Open(f.File)
		if err != nil {
			return nil, badInput("%w: name a manifest, or write one with 'dynalimit manifest export'", err)
		}
		defer file.Close() //nolint:errcheck // opened for reading only
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, manifest.MaxSize+1))
	if err != nil {
		return nil, badInput("%s cannot be read: %w", f.fileName(), err)
	}
	m, err := manifest.Parse(f.fileName(), text)
	if err != nil {
		return nil, &failure{exitUsage, err}
	}
	return m, nil
}

// readManifest reads and parses the manifest, and sets g.Namespace to its namespace if the command has none. It
// fails if both name different ones.
func (f manifestFile) readManifest(g *globals) (*manifest.Manifest, error) {
	m, err := f.readFile()
	if err != nil {
		return nil, err
	}
	if g.Namespace != "" && m.Namespace != "" && g.Namespace != m.Namespace {
		return nil, badInput("%s is for the namespace %q and the command for %q: correct --namespace, or the file", f.fileName(), m.Namespace, g.Namespace)
	}
	g.Namespace = cmp.Or(g.Namespace, m.Namespace)
	return m, nil
}

// manifestOptions is the flags that permit parts of a plan.
type manifestOptions struct {
	Adopt         bool   `help:"Take over items that no manifest manages, and change those that differ."`
	AdoptFrom     string `help:"Take over items that another manifest manages." placeholder:"NAME"`
	LiftBlocks    bool   `help:"Lift blocks that are not in the file. Without it they stay, because they may have been set in an emergency."`
	PruneEntities bool   `help:"Delete entities that this manifest manages and the file does not name, with their limits and buckets."`
	Only          bool   `help:"Confirm that money is deleted together with other items."`
	Full          bool   `help:"Show every change, however many there are."`
}

// planOptions converts the flags for manifest.Compare, without --only and --full.
func (o manifestOptions) planOptions() manifest.Options {
	return manifest.Options{Adopt: o.Adopt, AdoptFrom: o.AdoptFrom, Prune: o.PruneEntities, LiftBlocks: o.LiftBlocks}
}

// makePlan reads the table and returns the changes that would make it match m; it changes nothing. It marks
// changes as refused that take limits out of force without a confirmation; --only confirms those of deletions.
func (o manifestOptions) makePlan(ctx context.Context, repo *dynalimit.Repository, m *manifest.Manifest) (manifest.Plan, error) {
	table := manifest.Of(admin.New(repo))
	live, err := manifest.Read(ctx, table, m)
	if err != nil {
		return manifest.Plan{}, err
	}
	plan := manifest.Compare(m, live, o.planOptions())
	return plan, manifest.RefuseLosses(ctx, table, &plan, o.Only)
}

type manifestPlanCmd struct {
	manifestFile
	manifestOptions
	ExitCode bool `help:"End with the exit code 3 if there is anything to change, or a source by hand."`
}

// Run prints the changes that an apply of the manifest would make, with warnings, and changes nothing. With
// --exit-code it returns errNo if the table differs, or a source was set by hand.
func (c manifestPlanCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	m, err := c.readManifest(g)
	if err != nil {
		return err
	}
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		p, err := c.makePlan(ctx, repo, m)
		if err != nil {
			return err
		}
		warnOfAlerts(ctx, repo, m, &p)
		g.noteUnlisted(ctx, out)
		if err := out.Show(p, func() { manifest.Show(out, p, c.shortName(), c.Full) }); err != nil {
			return err
		}
		if c.ExitCode && p.Drifts() {
			return errNo
		}
		return nil
	})
}

type manifestExportCmd struct {
	Name    string `help:"Name of the manifest, as its items tell in managed_by. Default: that of the only one that manages anything, or manifest." placeholder:"NAME"`
	Managed bool   `help:"Only items that the manifest with that name manages."`
	zaeSource
}

// Run prints the manifest of the table as YAML, or as JSON with --json, and notes the sources that a manifest
// cannot express. With --from-zae it translates a table of zae-limiter instead.
func (c manifestExportCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	if c.FromZae != "" {
		return c.exportZae(ctx, g, out)
	}
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		live, err := manifest.Read(ctx, manifest.Of(admin.New(repo)), nil)
		if err != nil {
			return err
		}
		g.noteUnlisted(ctx, out)
		m, notes := manifest.Export(live, cmp.Or(c.Name, manifest.Manager(live)), g.Namespace, c.Managed)
		for at, why := range notes {
			out.Notef("dynalimit: %s is not in the manifest: it %s", term.Plain(at.String()), term.Plain(why))
		}
		comments := []string{
			"Limits of the table " + repo.Table() + ", written by 'dynalimit manifest export'.",
			"'dynalimit manifest plan' compares this file with the table, 'dynalimit manifest apply' changes the table.",
		}
		if !out.JSON {
			return manifest.Write(out, m, comments, notes)
		}
		return manifest.WriteJSON(out, m)
	})
}

// Validate refuses an invalid --name, and flags of the other kind of table.
func (c manifestExportCmd) Validate() error {
	switch {
	case c.FromZae == "" && c.FromNamespace != "":
		return errors.New("--from-namespace is of a table of zae-limiter: name that with --from-zae, or leave it out")
	case c.FromZae != "" && c.Managed:
		return errors.New("--managed is of a table of dynalimit: leave it out, or --from-zae")
	case c.Name == "":
		return nil
	}
	if reason := manifest.CheckName(c.Name); reason != "" {
		return fmt.Errorf("--name %s", reason)
	}
	return nil
}

type manifestValidateCmd struct {
	manifestFile
}

// validated is the result of validating a manifest without a table.
type validated struct {
	Valid    bool               `json:"valid"`
	Name     string             `json:"name,omitempty"`
	Sources  int                `json:"sources"`
	Entities int                `json:"entities"`
	Problems []manifest.Problem `json:"problems"`
	Warnings []manifest.Problem `json:"warnings"`
}

// Run checks the file without a table, and prints its warnings and size, or with --json also its problems. If
// there are problems, it returns them as an error.
func (c manifestValidateCmd) Run(out *term.Output) error {
	m, err := c.readFile()
	v := validated{Valid: err == nil, Problems: []manifest.Problem{}, Warnings: []manifest.Problem{}}
	problems, known := errors.AsType[manifest.Problems](err)
	switch {
	case err == nil:
		v.Name, v.Sources, v.Entities = m.Name, len(m.Configs), len(m.Entities)
		v.Warnings = append(v.Warnings, m.Warnings...)
	case known:
		v.Problems = problems
	default:
		return err
	}
	if out.JSON {
		return errors.Join(err, out.Show(v, nil))
	}
	if err != nil {
		return err
	}
	for _, w := range v.Warnings {
		fmt.Fprintln(out, out.Yellow("warning: "+term.Plain(w.Error())))
	}
	fmt.Fprintf(out, "%s is a manifest: %s.\n", c.shortName(), manifest.Size(m))
	return nil
}

type manifestSchemaCmd struct{}

// Run prints the JSON schema of manifests.
func (manifestSchemaCmd) Run(out *term.Output) error {
	_, err := out.Write(manifest.Schema)
	return err
}
