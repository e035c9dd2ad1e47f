package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

type entityBucketsCmd struct {
	entityID
	Resource string `help:"Only the bucket of this resource." placeholder:"NAME"`
}

// bucketJSON is a bucket as JSON.
type bucketJSON struct {
	Entity   string            `json:"entity_id"`
	Resource string            `json:"resource"`
	Limits   []bucketLimitJSON `json:"limits"`
	Expires  time.Time         `json:"expires_at,omitzero"`
}

type bucketLimitJSON struct {
	Limit       dynalimit.Limit `json:"limit"`
	Remaining   int64           `json:"remaining"`
	FullSeconds float64         `json:"full_in_seconds"`
}

// bucketToJSON converts a bucket for --json, with whole tokens, the time until each limit is full in seconds,
// and the expiry in UTC.
func bucketToJSON(b admin.Bucket) bucketJSON {
	j := bucketJSON{b.EntityID, b.Resource, []bucketLimitJSON{}, b.Expires.UTC()}
	for _, l := range b.Limits {
		j.Limits = append(j.Limits, bucketLimitJSON{l.Limit, l.Remaining, l.Reset.Seconds()})
	}
	return j
}

// Run prints the balance of each limit in the buckets of an entity, or only in the one of --resource. Without a
// bucket it says that it is full at its first use.
func (c entityBucketsCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		all := admin.New(repo).Buckets.List(ctx, c.ID)
		if c.Resource != "" {
			all = bucketsOf(c.Resource, all)
		}
		if out.JSON {
			return term.Stream(out, all, term.List[admin.Bucket]{JSON: func(b admin.Bucket) any { return bucketToJSON(b) }})
		}
		return c.printBuckets(out, all)
	})
}

// bucketsOf returns a sequence of those buckets of all that are on one resource. Errors of all pass.
func bucketsOf(resource string, all iter.Seq2[admin.Bucket, error]) iter.Seq2[admin.Bucket, error] {
	return func(yield func(admin.Bucket, error) bool) {
		for b, err := range all {
			if (err != nil || b.Resource == resource) && !yield(b, err) {
				return
			}
		}
	}
}

// printBuckets prints buckets for people as the sequence yields them, or a note without any bucket. It stops at
// the first error of the sequence and returns it, or the error of writing at the end.
func (c entityBucketsCmd) printBuckets(out *term.Output, all iter.Seq2[admin.Bucket, error]) error {
	none := true
	for b, err := range all {
		if err != nil {
			return err
		}
		none = false
		printBucket(out, b)
	}
	if none {
		fmt.Fprintf(out, "%s has no bucket there: it is full when it is first used.\n", c.ID)
	}
	return out.Err()
}

// printBucket prints a bucket for people: for each limit a line with its remaining tokens and time until full,
// or its calls in flight. It adds a bar if the terminal has room.
func printBucket(out *term.Output, b admin.Bucket) {
	fmt.Fprintf(out, "%s on %s\n", out.Bold(term.Plain(b.EntityID)), out.Bold(term.Plain(b.Resource)))
	width := 0
	for _, l := range b.Limits {
		width = max(width, len(l.Limit.Name))
	}
	for _, l := range b.Limits {
		level := levelText(l.Limit, l.Remaining, "")
		switch {
		case l.Limit.IsConcurrent():
		case l.Reset > 0:
			level += ", full in " + notation.WaitText(l.Reset)
		default:
			level += ", full"
		}
		bar := ""
		if room := bucketBar(out.Width, 4+width+len(level)); room > 0 {
			bar = levelBar(out, l.Remaining, l.Limit.Burst, l.Remaining == 0, room)
		}
		fmt.Fprintf(out, "  %-*s %s%s\n", width, term.Plain(l.Limit.Name), bar, level)
	}
}

// bucketBar returns the width of a bar on a line of the terminal with used columns. It is at most barWidth, and
// 0 if fewer than 4 columns are left. Without a terminal (0) it returns barWidth.
func bucketBar(terminal, used int) int {
	if terminal <= 0 {
		return barWidth
	}
	if room := min(barWidth, terminal-used); room >= 4 {
		return room
	}
	return 0
}

// levelText formats the remaining tokens of a limit in its unit, such as "40 of 100 left" or "5 in debt, of
// 100". For calls in flight it counts taken slots, as "3 of 20 in flight". left is the word after remaining
// tokens, such as " left".
func levelText(l dynalimit.Limit, remaining int64, left string) string {
	unit, burst := l.Unit, max(1, l.Burst)
	if l.IsConcurrent() {
		return notation.GroupedNumber(burst-remaining) + " of " + notation.GroupedNumber(burst) + " in flight"
	}
	if remaining < 0 {
		return notation.AmountInUnit(unit, -remaining) + " in debt, of " + notation.AmountInUnit(unit, burst)
	}
	return notation.AmountInUnit(unit, remaining) + " of " + notation.AmountInUnit(unit, burst) + left
}

// levelBar returns the remaining share of burst as a coloured bar of width columns, followed by a space. It is
// red in debt or if shut is true, yellow if at most a tenth remains, else green.
func levelBar(out *term.Output, remaining, burst int64, shut bool, width int) string {
	colour := out.Green
	switch {
	case remaining < 0 || shut:
		colour = out.Red
	case remaining <= burst/10:
		colour = out.Yellow
	}
	return colour(term.Bar(float64(remaining)/float64(max(1, burst)), 0, width)) + " "
}
