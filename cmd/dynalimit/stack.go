package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/connect"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// stackCmd manages CloudFormation stacks.
type stackCmd struct {
	Deploy stackDeployCmd `cmd:"" help:"Deploy tables, roles and alarms, or their changes."`
	Status stackStatusCmd `cmd:"" help:"Show how a stack stands, its outputs and its latest events."`
	List   stackListCmd   `cmd:"" help:"List the stacks that were deployed with this command."`
	Delete stackDeleteCmd `cmd:"" help:"Delete a stack; its tables stay."`
}

// stackName names a stack.
type stackName struct {
	Name string `arg:"" optional:"" name:"stack" help:"The stack's name. Default: dynalimit." default:"dynalimit"`
}

// stackNames is the pattern of CloudFormation's names.
var stackNames = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]{0,127}$`)

// Validate refuses an invalid name.
func (s stackName) Validate() error {
	if !stackNames.MatchString(s.Name) {
		return fmt.Errorf("%q is no name of a stack: use up to 128 letters, digits and dashes, a letter first", s.Name)
	}
	return nil
}

// onFormation calls run with a client of CloudFormation, and adds advice and the exit code to its error. If the
// flags or the environment name a DynamoDB engine and no CloudFormation, it fails instead.
func (g *globals) onFormation(ctx context.Context, out *term.Output, run func(*cloudformation.Client) error) error {
	o := g.connectOptions(ctx)
	named := connect.Options{Endpoint: os.Getenv("AWS_ENDPOINT_URL_DYNAMODB")} // the variable that 'dynalimit local' prints
	if (g.Local || g.Endpoint != "" || named.OnThisMachine()) && os.Getenv("AWS_ENDPOINT_URL_CLOUDFORMATION") == "" && os.Getenv("AWS_ENDPOINT_URL") == "" {
		return badInput("--local, --endpoint and AWS_ENDPOINT_URL_DYNAMODB name a DynamoDB, and there is no CloudFormation: make the table with 'dynalimit table create', or set AWS_ENDPOINT_URL_CLOUDFORMATION")
	}
	defer out.Watch("CloudFormation")()
	cfg, err := o.Config(ctx)
	if err != nil {
		return err
	}
	err = run(o.FormationOf(cfg))
	return g.explainStack(ctx, err)
}

// explainStack wraps a conflict with a running operation in a failure with exitConflict, and an unknown
// parameter in one with exitUsage. It adds advice to an interrupt and to missing credentials. It returns nil
// and other errors as they are.
func (g *globals) explainStack(ctx context.Context, err error) error {
	_, busy := errors.AsType[*stack.BusyError](err)
	_, param := errors.AsType[*stack.ParamError](err)
	switch {
	case err == nil:
		return nil
	case busy:
		return &failure{exitConflict, err}
	case param:
		return &failure{exitUsage, err}
	case ctx.Err() != nil, connect.NoCredentials(err):
		return g.explainError(ctx, err)
	}
	return err
}

// explainInterrupted replaces an error after the end of ctx by a failure with exitInterrupted, which says that
// CloudFormation continues with the stack name. It returns nil, and errors before that end, as they are.
func explainInterrupted(ctx context.Context, name string, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return &failure{exitInterrupted, fmt.Errorf("interrupted: CloudFormation goes on with the stack %s without this command; follow it with 'dynalimit stack status %s'", name, name)}
}

// findExistingStack requests the description of the stack of a name. It returns an error if the stack does not
// exist.
func findExistingStack(ctx context.Context, client *cloudformation.Client, name string) (*stack.Stack, error) {
	s, err := stack.Find(ctx, client, name)
	if err == nil && s == nil {
		err = fmt.Errorf("there is no stack %s here: list the stacks with 'dynalimit stack list', or correct --region", name)
	}
	return s, err
}

// printStackEvent prints an event of a stack as one line, with its reason if it failed or was
// skipped.
func printStackEvent(out *term.Output, e stack.Event) {
	status := fmt.Sprintf("%-20s", e.Status)
	switch {
	case e.Failed():
		status = out.Red(status)
	case strings.HasSuffix(e.Status, "_COMPLETE"):
		status = out.Green(status)
	}
	line := fmt.Sprintf("  %s  %s  %s", out.Dim(e.At.Format("15:04:05")), status, term.Plain(e.Logical))
	if e.Reason != "" && (e.Failed() || strings.HasSuffix(e.Status, "_SKIPPED")) {
		line += out.Red(": " + term.Plain(e.Reason))
	}
	fmt.Fprintln(out, line)
}

// printOutputs prints the outputs of a stack as a table. It prints nothing without outputs.
func printOutputs(out *term.Output, outputs []stack.Output) {
	if len(outputs) == 0 {
		return
	}
	rows := make([][]string, len(outputs))
	for i, o := range outputs {
		rows[i] = []string{o.Name, o.Value}
	}
	fmt.Fprintln(out)
	out.Table([]string{"OUTPUT", "VALUE"}, rows)
}
