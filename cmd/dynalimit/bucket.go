package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// bucketCmd changes buckets by hand; 'entity buckets' shows them.
type bucketCmd struct {
	Reset  bucketResetCmd  `cmd:"" help:"Make limits of a bucket full."`
	TopUp  bucketTopUpCmd  `cmd:"" help:"Add tokens to limits of a bucket."`
	Grant  bucketGrantCmd  `cmd:"" help:"Add tokens to quotas of a bucket, for the window that they are in."`
	Resume bucketResumeCmd `cmd:"" help:"End the pause of a bucket after its provider has refused calls."`
}

// bucketFlags are the common flags for filling a bucket.
type bucketFlags struct {
	Entity   string `arg:"" help:"The entity's id."`
	Resource string `arg:"" help:"The resource of the bucket."`
	ID       string `name:"id" help:"Do it once under this id, however often the command is repeated within 30 days. Default: a new one, which a failure names." placeholder:"ID"`
	changes
}

// Validate refuses an empty id of the entity or name of the resource.
func (b bucketFlags) Validate() error {
	return cmp.Or(requireWord("id of the entity", b.Entity), requireWord("name of the resource", b.Resource))
}

// refillJSON is the result of filling a bucket, as JSON.
type refillJSON struct {
	Entity    string            `json:"entity_id"`
	Resource  string            `json:"resource"`
	ID        string            `json:"id,omitempty"`
	Repeated  bool              `json:"repeated,omitempty"`
	Missing   bool              `json:"missing,omitempty"`
	Estimated bool              `json:"estimated,omitempty"`
	Limits    []limitRefillJSON `json:"limits"`
	DryRun    bool              `json:"dry_run"`
}

type limitRefillJSON struct {
	Name   string `json:"name"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
	// Unit is the unit of the typed amount. A bucket stores no unit.
	Unit string `json:"unit,omitempty"`
}

type bucketResetCmd struct {
	bucketFlags
	Limit []string `help:"Only this limit; repeat for more. Default: all that the bucket has." placeholder:"NAME"`
}

// Run fills the limits named by --limit, or else all limits of the bucket, up to their burst, and prints the
// tokens before and after. A missing bucket stays missing. A dry run prints the expected tokens without a
// change.
func (c bucketResetCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	units := map[string]string{}
	for _, name := range c.Limit {
		units[name] = ""
	}
	return c.fillBucket(ctx, g, out, func(repo *dynalimit.Repository, id string) (*admin.BucketRefill, error) {
		return admin.New(repo).Buckets.Reset(ctx, c.Entity, c.Resource, id, c.Limit...)
	}, func(l dynalimit.LimitStatus) (after int64, wanted bool, err error) {
		return max(l.Remaining, l.Limit.Burst), len(c.Limit) == 0 || slices.Contains(c.Limit, l.Limit.Name), nil
	}, units)
}

// addition is an amount added to a bucket.
type addition struct {
	bucketFlags
	Amounts []string `arg:"" name:"limit" sep:"none" help:"How many tokens to add, NAME=N, such as rpm=10, or dollars of money, such as 'usd=$5'."`
}

// Validate refuses an empty id or resource, malformed amounts, and amounts below 1.
func (c addition) Validate() error {
	_, err := c.parseAmounts()
	return cmp.Or(c.bucketFlags.Validate(), err)
}

// parseAmounts returns the amounts to add by the name of the limit: whole tokens, or micro-dollars of money. It
// returns an error for an amount below 1 and for a text that is not NAME=N.
func (c addition) parseAmounts() (dynalimit.Amounts, error) {
	amounts, err := notation.ParseAmounts(c.Amounts)
	if err != nil {
		return nil, err
	}
	for name, n := range amounts {
		if n < 1 {
			return nil, fmt.Errorf("%s=%d adds nothing: give at least 1", name, n)
		}
	}
	return amounts, nil
}

// addTokens calls add with the amounts of the flags and an id that makes a repetition harmless, and prints the
// tokens before and after. A dry run instead prints the tokens that after returns for a limit and the amount n.
// Invalid amounts are an error.
func (c addition) addTokens(
	ctx context.Context, g *globals, out *term.Output,
	add func(b admin.Buckets, ctx context.Context, entity, resource, id string, amounts dynalimit.Amounts) (*admin.BucketRefill, error),
	after func(l dynalimit.LimitStatus, n int64) (int64, error),
) error {
	amounts, err := c.parseAmounts()
	if err != nil {
		return badInput("%w", err)
	}
	return c.fillBucket(ctx, g, out, func(repo *dynalimit.Repository, id string) (*admin.BucketRefill, error) {
		return add(admin.New(repo).Buckets, ctx, c.Entity, c.Resource, id, amounts)
	}, func(l dynalimit.LimitStatus) (int64, bool, error) {
		n, wanted := amounts[l.Limit.Name]
		if !wanted {
			return 0, false, nil
		}
		held, err := after(l, n)
		return held, true, err
	}, notation.AmountUnits(c.Amounts))
}

type bucketTopUpCmd struct{ addition }

// Run adds tokens to the named limits of the bucket, up to their burst, and prints the tokens before and after.
// A dry run prints the expected tokens without a change.
func (c bucketTopUpCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return c.addTokens(ctx, g, out, admin.Buckets.TopUp, func(l dynalimit.LimitStatus, n int64) (int64, error) {
		if n > l.Limit.Burst-l.Remaining { // avoids an overflow of the sum
			return max(l.Remaining, l.Limit.Burst), nil
		}
		return l.Remaining + n, nil
	})
}

type bucketGrantCmd struct{ addition }

// Run adds tokens to the current window of the named quotas, also beyond their burst, and prints the tokens
// before and after. It refuses token buckets. A dry run prints the expected tokens without a change.
func (c bucketGrantCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return c.addTokens(ctx, g, out, admin.Buckets.GrantWindow, func(l dynalimit.LimitStatus, n int64) (int64, error) {
		if !l.Limit.IsQuota() {
			return 0, badInput("%s is a token bucket, which has no window: use 'dynalimit bucket top-up'", l.Limit.Name)
		}
		return l.Remaining + min(n, math.MaxInt64-max(0, l.Remaining)), nil
	})
}

// bucketResumeCmd ends a pause.
type bucketResumeCmd struct {
	Entity   string `arg:"" help:"The entity's id."`
	Resource string `arg:"" help:"The resource of the bucket."`
	changes
}

// Validate refuses an empty id of the entity or name of the resource.
func (c bucketResumeCmd) Validate() error {
	return cmp.Or(requireWord("id of the entity", c.Entity), requireWord("name of the resource", c.Resource))
}

// resumeJSON is the end of a pause, as JSON.
type resumeJSON struct {
	Entity   string `json:"entity_id"`
	Resource string `json:"resource"`
	Missing  bool   `json:"missing,omitempty"`
	DryRun   bool   `json:"dry_run"`
}

// Run ends the pause of the bucket, which other processes notice within 31 s, and prints the result. It changes
// nothing in a dry run, and if the bucket is missing.
func (c bucketResumeCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		j := resumeJSON{Entity: c.Entity, Resource: c.Resource, Missing: true, DryRun: c.DryRun}
		for _, err := range bucketsOf(c.Resource, admin.New(repo).Buckets.List(ctx, c.Entity)) {
			if err != nil {
				return err
			}
			j.Missing = false
		}
		if !j.Missing && !c.DryRun {
			if err := endPause(ctx, repo, c.Entity, c.Resource); err != nil {
				return err
			}
		}
		return out.Show(j, func() { j.printText(out) })
	})
}

// printText prints for people that the pause ended, that the bucket is missing, or that a dry run changed
// nothing.
func (j resumeJSON) printText(out *term.Output) {
	fmt.Fprintf(out, "%s on %s\n", out.Bold(j.Entity), out.Bold(j.Resource))
	switch {
	case j.Missing:
		fmt.Fprintln(out, "There is no bucket, so no pause. Nothing was done.")
	case j.DryRun:
		fmt.Fprintln(out, "Dry run: nothing was changed.")
	default:
		fmt.Fprintln(out, "Not paused any more. Each process goes on with its next answer from the bucket, within 31 s.")
	}
}

// endPause ends the pause of the bucket, with the reason "by hand", by a limiter that it creates for this. It
// closes the limiter even if ctx has ended, and returns the errors of both.
func endPause(ctx context.Context, repo *dynalimit.Repository, entity, resource string) error {
	limiter, err := dynalimit.New(repo, nil)
	if err != nil {
		return err
	}
	return errors.Join(limiter.Resume(ctx, entity, resource, "by hand"), limiter.Close(context.WithoutCancel(ctx)))
}

// fillBucket calls do, which refills the bucket under the id of --id or a new one, and prints the tokens before
// and after. A dry run prints the tokens that would returns, and fails if the bucket lacks a limit of units. If
// do may or may not have taken effect, the error names the id to repeat.
func (b bucketFlags) fillBucket(
	ctx context.Context, g *globals, out *term.Output,
	do func(repo *dynalimit.Repository, id string) (*admin.BucketRefill, error),
	would func(dynalimit.LimitStatus) (after int64, wanted bool, err error), units map[string]string,
) error {
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		j := refillJSON{Entity: b.Entity, Resource: b.Resource, Limits: []limitRefillJSON{}, DryRun: b.DryRun}
		if b.DryRun {
			if err := j.computeRefill(ctx, repo, would, units); err != nil {
				return err
			}
			return out.Show(j, func() { j.printText(out) })
		}
		id := cmp.Or(b.ID, rand.Text())
		done, err := do(repo, id)
		if err != nil {
			if errors.Is(err, dynalimit.ErrUnavailable) || ctx.Err() != nil {
				return fmt.Errorf("%w; repeat it with --id %s, and it is done once", err, id)
			}
			return err
		}
		j.ID, j.Repeated, j.Missing, j.Estimated = done.ID, done.Repeated, done.Missing, done.Estimated
		for _, name := range slices.Sorted(maps.Keys(done.After)) {
			j.Limits = append(j.Limits, limitRefillJSON{name, done.Before[name], done.After[name], units[name]})
		}
		return out.Show(j, func() { j.printText(out) })
	})
}

// computeRefill appends to j.Limits the stored bucket's wanted limits: their tokens before a refill and, from
// would, after it. It writes nothing. It sets j.Missing if the bucket does not exist, and fails if the bucket
// lacks a limit of units.
func (j *refillJSON) computeRefill(ctx context.Context, repo *dynalimit.Repository, would func(dynalimit.LimitStatus) (int64, bool, error), units map[string]string) error {
	j.Missing = true
	for b, err := range bucketsOf(j.Resource, admin.New(repo).Buckets.List(ctx, j.Entity)) {
		if err != nil {
			return err
		}
		j.Missing = false
		var has []string
		for _, l := range b.Limits {
			has = append(has, l.Limit.Name)
			after, wanted, err := would(l)
			if err != nil {
				return err
			}
			if wanted {
				j.Limits = append(j.Limits, limitRefillJSON{l.Limit.Name, l.Remaining, after, units[l.Limit.Name]})
			}
		}
		for _, name := range slices.Sorted(maps.Keys(units)) {
			if !slices.Contains(has, name) {
				return badInput("the bucket of %s on %s has no limit %q: it has %s", j.Entity, j.Resource, name, strings.Join(has, ", "))
			}
		}
	}
	return nil
}

// printText prints the tokens of each limit before and after a refill, and whether it was done, repeated, or a
// dry run. If the bucket is missing, it prints only that.
func (j refillJSON) printText(out *term.Output) {
	fmt.Fprintf(out, "%s on %s\n", out.Bold(j.Entity), out.Bold(j.Resource))
	if j.Missing {
		fmt.Fprintln(out, "There is no bucket: it is full when it is first used. Nothing was done.")
		return
	}
	width := 0
	for _, l := range j.Limits {
		width = max(width, len(l.Name))
	}
	for _, l := range j.Limits {
		line := fmt.Sprintf("%-*s  %s", width, l.Name, changeOf(l))
		if l.Before != l.After {
			line = out.Green(line)
		}
		fmt.Fprintln(out, "  "+line)
	}
	switch {
	case j.DryRun:
		fmt.Fprintln(out, "Dry run: nothing was changed.")
	case j.Repeated:
		fmt.Fprintln(out, "This id was done before: nothing was changed now. The result of that time is shown.")
	case j.Estimated:
		fmt.Fprintln(out, "Filled. Other processes took tokens meanwhile: the earlier balance was read just before.")
	default:
		fmt.Fprintln(out, "Filled.")
	}
}

// changeOf formats the tokens of a limit before and after a refill, in the limit's unit. If they are equal, it
// returns one amount with "as before".
func changeOf(l limitRefillJSON) string {
	if l.Before == l.After {
		return notation.AmountInUnit(l.Unit, l.After) + ", as before"
	}
	return notation.AmountInUnit(l.Unit, l.Before) + " → " + notation.AmountInUnit(l.Unit, l.After)
}
