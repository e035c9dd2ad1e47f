package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

type stackDeleteCmd struct {
	stackName
	RemoveProtection bool `help:"Delete it although termination protection is on."`
	destroys
}

// stackDeletion is the result of a deletion as JSON.
type stackDeletion struct {
	*stack.Farewell
	Deleted bool `json:"deleted"`
	DryRun  bool `json:"dry_run"`
}

// Run deletes a stack that this command deployed, after a confirmation, and waits for the end. It fails for
// other stacks and while the stack changes. It prints the kept tables; a dry run prints the deleted and the
// kept resources and deletes nothing.
func (c stackDeleteCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.onFormation(ctx, out, func(client *cloudformation.Client) error {
		s, err := findExistingStack(ctx, client, c.Name)
		if err != nil {
			return err
		}
		switch {
		case s.Running():
			return &stack.BusyError{Stack: s.Name, Status: s.Status}
		case !s.Ours:
			return fmt.Errorf("the stack %s was not deployed with this command: delete it where it was made; nothing was deleted", s.Name)
		}
		farewell, err := stack.PreviewDelete(ctx, client, s)
		if err != nil {
			return err
		}
		result := &stackDeletion{Farewell: farewell, DryRun: c.DryRun}
		if !c.DryRun {
			if err := c.deleteStack(ctx, out, client, s, result); err != nil {
				return err
			}
		}
		return out.Show(result, func() { c.printDeletion(out, result) })
	})
}

// deleteStack deletes the stack after a confirmation, waits for the end, and sets result.Deleted. It fails if
// the stack is protected, unless --remove-protection is given. After an interrupt CloudFormation continues.
func (c stackDeleteCmd) deleteStack(ctx context.Context, out *term.Output, client *cloudformation.Client, s *stack.Stack, result *stackDeletion) error {
	if s.Protected && !c.RemoveProtection {
		return fmt.Errorf("termination protection of the stack %s is on: nothing was deleted; give --remove-protection if it is to go", s.Name)
	}
	question := fmt.Sprintf("Delete the stack %s and %s of it", s.Name, notation.CountText(len(result.Goes), "resource"))
	if names := tableNames(result.Stays); len(names) > 0 {
		question += ", keeping the tables " + strings.Join(names, ", ")
	}
	if err := c.confirm(ctx, out, question, s.Name); err != nil {
		return err
	}
	err := stack.Delete(ctx, client, s)
	result.Deleted = err == nil
	return explainInterrupted(ctx, s.Name, err)
}

// tableNames returns the physical names of the DynamoDB tables among a stack's resources, or nil.
func tableNames(resources []stack.Resource) []string {
	var names []string
	for _, r := range resources {
		if r.IsTable() {
			names = append(names, r.Physical)
		}
	}
	return names
}

// printDeletion prints that the stack is deleted, its kept tables, and the command that deletes one. For a dry
// run it prints the resources that would be deleted or kept.
func (c stackDeleteCmd) printDeletion(out *term.Output, r *stackDeletion) {
	if c.DryRun {
		for _, gone := range r.Goes {
			fmt.Fprintln(out, out.Red("  - "+gone.Logical+"  "+gone.Type+"  "+gone.Physical))
		}
		for _, kept := range r.Stays {
			fmt.Fprintln(out, "  = "+kept.Logical+"  "+kept.Type+"  "+kept.Physical+"  stays")
		}
		fmt.Fprintln(out, "Dry run: nothing was deleted.")
		return
	}
	fmt.Fprintf(out, "The stack %s is deleted.\n", out.Bold(r.Stack))
	names := tableNames(r.Stays)
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(out, "These tables stay, with all that is in them: %s. To delete one:\n", strings.Join(names, ", "))
	fmt.Fprintln(out, "  "+out.Cyan("dynalimit table delete --remove-protection --table "+names[0]))
}
