package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

type tableDeleteCmd struct {
	whichTables
	RemoveProtection bool   `help:"Delete it although deletion protection is on."`
	FinalBackup      string `help:"Make a backup of this name first, and wait for it." placeholder:"NAME"`
	destroys
}

// Validate refuses a name of a backup with fewer than 3 or more than 255 bytes.
func (c tableDeleteCmd) Validate() error {
	if n := len(c.FinalBackup); c.FinalBackup != "" && (n < 3 || n > 255) {
		return fmt.Errorf("--final-backup %q: a name has 3 to 255 characters", c.FinalBackup)
	}
	return nil
}

// tableLoss is a deleted table as JSON.
type tableLoss struct {
	tables.Loss
	FinalBackup *tables.Backup `json:"final_backup,omitempty"`
	Deleted     bool           `json:"deleted"`
	DryRun      bool           `json:"dry_run"`
}

// Run deletes the tables after a confirmation for each, and prints the losses. A failure stops it, and the
// result is still printed if a table was deleted or backed up. A dry run only prints the losses.
func (c tableDeleteCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.tablesOf(ctx, out, c.whichTables, false, func(client *dynamodb.Client, plans []tables.Plan) error {
		losses, err := c.previewLosses(ctx, client, plans)
		if err != nil {
			return err
		}
		if c.DryRun {
			return out.Show(losses, func() { c.printDeleted(out, losses) })
		}
		if err := c.confirmAll(ctx, out, losses); err != nil {
			return err
		}
		err = c.deleteAll(ctx, client, out, losses)
		if err != nil && !losses[0].Deleted && losses[0].FinalBackup == nil {
			return err // nothing was deleted
		}
		return errors.Join(err, out.Show(losses, func() { c.printDeleted(out, losses) }))
	})
}

// confirmAll asks about each table, with its losses, unless --yes is given. It fails at the first refusal. It
// deletes nothing.
func (c tableDeleteCmd) confirmAll(ctx context.Context, out *term.Output, losses []tableLoss) error {
	for _, l := range losses {
		if err := c.confirm(ctx, out, strings.TrimSuffix(c.lossText(l), "."), l.Table); err != nil {
			return err
		}
	}
	return nil
}

// deleteAll deletes the tables in turn, each after its final backup if requested, up to the first failure. It
// sets Deleted and FinalBackup of each element of losses.
func (c tableDeleteCmd) deleteAll(ctx context.Context, client *dynamodb.Client, out *term.Output, losses []tableLoss) error {
	for i := range losses {
		if err := c.deleteTable(ctx, client, out, &losses[i]); err != nil {
			return err
		}
	}
	return nil
}

// printDeleted prints for each table whether it is deleted, and its final backup. In a dry run it prints the
// losses instead.
func (c tableDeleteCmd) printDeleted(out *term.Output, losses []tableLoss) {
	for _, l := range losses {
		if c.DryRun {
			fmt.Fprintln(out, c.lossText(l))
			continue
		}
		if l.Deleted {
			fmt.Fprintf(out, "%s is deleted.\n", out.Bold(l.Table))
		} else {
			fmt.Fprintf(out, "%s is not deleted.\n", out.Bold(l.Table))
		}
		if l.FinalBackup != nil {
			fmt.Fprintf(out, "Its backup is %s\n", l.FinalBackup.ARN)
		}
	}
	if c.DryRun {
		fmt.Fprintln(out, "Dry run: nothing was deleted.")
	}
}

// previewLosses reads the tables and returns the loss of each; it deletes nothing. It fails if a table is
// missing or, outside a dry run, protected without --remove-protection.
func (c tableDeleteCmd) previewLosses(ctx context.Context, client *dynamodb.Client, plans []tables.Plan) ([]tableLoss, error) {
	var losses []tableLoss
	for _, p := range plans {
		loss, there, err := tables.PreviewDelete(ctx, client, p)
		switch {
		case err != nil:
			return nil, err
		case !there:
			return nil, fmt.Errorf("there is no table %s here: nothing was deleted; name yours with --table and --region", p.Name())
		case loss.Protected && !c.RemoveProtection && !c.DryRun:
			return nil, fmt.Errorf("%s is protected from being deleted: nothing was deleted; give --remove-protection if it is to go", p.Name())
		}
		losses = append(losses, tableLoss{Loss: loss, DryRun: c.DryRun})
	}
	return losses, nil
}

// lossText returns sentences about the deletion of a table: its number of items, its protection, and its newest
// or planned backup.
func (c tableDeleteCmd) lossText(l tableLoss) string {
	text := fmt.Sprintf("%s and all %s in it are deleted for good.", l.Table, notation.CountText(l.Items, "item"))
	if l.More {
		text = fmt.Sprintf("%s and everything in it, more than %s, is deleted for good.", l.Table, notation.CountText(max(l.Items, l.Known), "item"))
	}
	if l.Protected {
		text += " Its deletion protection is removed."
	}
	switch {
	case c.FinalBackup != "":
		text += " A backup is made first: " + c.FinalBackup + "."
	case l.Backup != nil:
		text += fmt.Sprintf(" Its newest backup is %s, of %s.", l.Backup.Name, l.Backup.At.Format("2006-01-02 15:04 MST"))
	case l.Recovery == tables.Yes:
		text += " Nobody has made a backup of it; DynamoDB keeps its last state for 35 days, as " + l.Table + "$DeletedTableBackup."
	default:
		text += " There is no backup of it: --final-backup NAME makes one."
	}
	return text
}

// deleteTable makes the final backup if --final-backup names one, then deletes the table, protected or not. It
// records both in l. If the backup fails, it deletes nothing.
func (c tableDeleteCmd) deleteTable(ctx context.Context, client *dynamodb.Client, out *term.Output, l *tableLoss) error {
	if c.FinalBackup != "" {
		out.Notef("dynalimit: making the backup %s", c.FinalBackup)
		b, err := tables.BackUp(ctx, client, l.Table, c.FinalBackup)
		if err != nil {
			return err
		}
		l.FinalBackup = b
	}
	err := tables.Delete(ctx, client, l.Loss)
	l.Deleted = err == nil
	return err
}
