// Command dynalimit runs and inspects what the dynalimit packages keep in
// DynamoDB. `dynalimit --help` lists its commands.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/version"
)

// commands is every command, one field each; a command lives in a file of its
// own, and its Help shows at least one example.
type commands struct {
	globals

	System   systemCmd   `cmd:"" help:"Show and set the limits of everybody."`
	Resource resourceCmd `cmd:"" help:"Show and set the limits of resources."`
	Plan     planCmd     `cmd:"" help:"Show and set the limits of plans, which entities share."`
	Limits   limitsCmd   `cmd:"" help:"Show and set the limits of single entities, and what is in force."`
	Manifest manifestCmd `cmd:"" help:"Limits as code: compare a file with the table, and make the table say what it says."`

	Check     checkCmd     `cmd:"" help:"Explain what a call would be told: limits, levels, what is left, until when."`
	Tables    tableCmd     `cmd:"" name:"table" help:"Make, look at and delete the tables."`
	Stack     stackCmd     `cmd:"" help:"Deploy tables, roles and alarms with CloudFormation."`
	Entity    entityCmd    `cmd:"" help:"Make, show, change and delete the records of entities, and show their buckets."`
	Block     blockCmd     `cmd:"" help:"Shut out an entity, a plan, a resource or everybody."`
	Bucket    bucketCmd    `cmd:"" help:"Fill buckets by hand."`
	Namespace namespaceCmd `cmd:"" help:"Register, list, delete and purge the tenants of the table."`
	Audit     auditCmd     `cmd:"" help:"Show who changed what, and when."`
	CFN       cfnCmd       `cmd:"" name:"cfn" help:"Print a CloudFormation template of tables, roles and alarms."`
	Terraform terraformCmd `cmd:"" help:"Print a Terraform configuration of tables, roles and alarms."`
	Migrate   migrateCmd   `cmd:"" help:"Turn a table of the older layout into today's."`

	Usage  usageCmd  `cmd:"" help:"Show, watch, export and repair what was used, by hour, day and month."`
	Tail   tailCmd   `cmd:"" help:"Follow the table's stream, and turn it into usage."`
	Top    topCmd    `cmd:"" help:"Watch the fullest buckets of a resource, or those of an entity, as they change."`
	Doctor doctorCmd `cmd:"" help:"Find out what is wrong with the table, the credentials, the clock, the configuration."`

	Local  localCmd  `cmd:"" help:"Serve a DynamoDB in memory on this machine, for development and tests."`
	Budget budgetCmd `cmd:"" help:"Show and change the budgets of organisations and their apps."`
	Keeper keeperCmd `cmd:"" help:"Serve budgets over HTTP, for services without access to DynamoDB."`

	Version         versionCmd         `cmd:"" help:"Show which release this is."`
	Completion      completionCmd      `cmd:"" help:"Print what makes a shell complete commands and flags."`
	CompletionWords completionWordsCmd `cmd:"" hidden:"" help:"Print what a word can become; shells ask it."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(run(ctx, os.Args[1:], term.New(os.Stdin, os.Stdout, os.Getenv), os.Stderr))
}

// exit is how kong ends the program from within its parser, after --help: the
// panic stops the parser, and run turns it into an exit code.
type exit int

// run is main with everything it touches as an argument; it returns the exit code.
func run(ctx context.Context, args []string, out *term.Output, stderr io.Writer) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exit:
			code = int(r)
		default:
			panic(r)
		}
	}()
	out.Notes = stderr
	if asksVersion(args) {
		fmt.Fprintln(out, version.Current())
		return exitOK
	}
	all := &commands{}
	parser := newParser(ctx, all, out, stderr)
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "dynalimit: %s\n%s\n", term.PlainLines(err.Error()), helpHint(err))
		return exitUsage
	}
	out.JSON = all.JSON
	switch err := cmp.Or(command.Run(), out.Err()); {
	case err == nil:
		return exitOK
	case errors.Is(err, errNo):
		return exitNo
	default:
		fmt.Fprintf(stderr, "dynalimit: %s\n", inCommands(term.PlainLines(strings.TrimPrefix(err.Error(), "dynalimit: "))))
		return codeOf(ctx, err)
	}
}

func newParser(ctx context.Context, all *commands, out *term.Output, stderr io.Writer) *kong.Kong {
	return kong.Must(all,
		kong.Name("dynalimit"),
		kong.Description("Rate limits and budgets for LLM calls, kept in DynamoDB."),
		kong.Writers(out, stderr),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Help(printHelp),
		kong.ExplicitGroups([]kong.Group{
			{Key: "where", Title: "Where the table is:"},
			{Key: "how", Title: "Every command:"},
		}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(out, &all.globals),
	)
}

// printHelp is kong's own, with what --local is for the command that has tables of its own.
func printHelp(options kong.HelpOptions, c *kong.Context) error {
	if node := c.Selected(); node != nil && node.FullPath() == "dynalimit keeper serve" {
		for _, group := range node.AllFlags(true) {
			for _, flag := range group {
				if flag.Name == "local" {
					flag.Help = keeperLocalHelp
				}
			}
		}
	}
	return kong.DefaultHelpPrinter(options, c)
}

// helpHint names the help that explains the arguments err is about.
func helpHint(err error) string {
	name := "dynalimit"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		name = parse.Context.Selected().FullPath()
	}
	return "Run '" + name + " --help' for its flags and examples."
}
