package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/version"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// versionCmd prints the release.
type versionCmd struct {
	TableVersion bool `help:"Show the version of the table's layout too, which asks DynamoDB."`
}

// versionJSON is the release as JSON.
type versionJSON struct {
	version.Info
	Table *layoutJSON `json:"table,omitempty"`
}

// layoutJSON is the version of a table's layout as JSON.
type layoutJSON struct {
	Table         string `json:"table"`
	Layout        string `json:"layout"`
	ClientMin     string `json:"client_min,omitempty"`
	CompositeOnly bool   `json:"composite_only"`
	UpdatedBy     string `json:"updated_by,omitempty"`
}

// Run prints the version of this program. With --table-version it also reads and prints the layout version of
// the table, and fails if that is missing.
func (c versionCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	j := versionJSON{Info: version.Current()}
	if c.TableVersion {
		defer out.Watch(g.connectOptions(ctx).Where())()
		var err error
		if j.Table, err = g.readLayout(ctx); err != nil {
			return g.explainError(ctx, err)
		}
	}
	return out.Show(j, func() {
		fmt.Fprintln(out, j.Info)
		if t := j.Table; t != nil {
			left := ""
			if !t.CompositeOnly {
				left = "; items of the older layout may be left, see 'dynalimit migrate --dry-run'"
			}
			fmt.Fprintf(out, "table %s: layout %s, written by %s%s\n", t.Table, term.Plain(t.Layout), term.Plain(orDash(t.UpdatedBy)), left)
		}
	})
}

// noteUnlisted prints a note on out.Notes that a list may lack entities of zae-limiter, unless the table is
// migrated. It reads that from the table, and ignores read errors.
func (g *globals) noteUnlisted(ctx context.Context, out *term.Output) {
	if t, err := g.readLayout(ctx); err == nil && !t.CompositeOnly {
		out.Notef("dynalimit: entities that zae-limiter made are not listed before the table is migrated: see 'dynalimit migrate --dry-run'")
	}
}

// readLayout reads the record of the table's layout, consistently, and returns its decoded form. It fails if
// the table or the record is missing.
func (g *globals) readLayout(ctx context.Context) (*layoutJSON, error) {
	client, err := g.connectOptions(ctx).Client(ctx)
	if err != nil {
		return nil, err
	}
	got, err := client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(g.Table), Key: schema.VersionKey().Attributes(), ConsistentRead: aws.Bool(true),
	})
	if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
		return nil, fmt.Errorf("there is no table %q here: %w", g.Table, fault.ErrTable)
	}
	if err != nil {
		return nil, fmt.Errorf("the version of the table %q cannot be read: %w", g.Table, err)
	}
	record, ok := schema.DecodeVersion(got.Item)
	if !ok {
		return nil, &failure{exitFailed, fmt.Errorf("the table %q says no version of its layout: have 'dynalimit table create' write it", g.Table)}
	}
	return &layoutJSON{g.Table, record.Schema, record.ClientMin, record.CompositeOnly, record.UpdatedBy}, nil
}
