// Command dynalimit manages and inspects the data of the dynalimit packages in DynamoDB.
// `dynalimit --help` lists its commands.
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

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/connect"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/version"
)

// commands is all commands, one field each. help.txt has a section with an example for each.
type commands struct {
	globals

	System   systemCmd   `cmd:"" help:"Show and set the limits of everybody." group:"limits"`
	Resource resourceCmd `cmd:"" help:"Show and set the limits of resources." group:"limits"`
	Plan     planCmd     `cmd:"" help:"Show and set the limits of plans, which entities share." group:"limits"`
	Limits   limitsCmd   `cmd:"" help:"Show and set the limits of single entities, and show the limits in force." group:"limits"`
	Manifest manifestCmd `cmd:"" help:"Limits as code: compare a file with the table, and change the table to match." group:"limits"`

	Check     checkCmd     `cmd:"" help:"Explain the decision about a call: limits, sources, remaining tokens, waiting time." group:"limits"`
	Tables    tableCmd     `cmd:"" name:"table" help:"Make, look at and delete the tables." group:"tables"`
	Stack     stackCmd     `cmd:"" help:"Deploy tables, roles and alarms with CloudFormation." group:"tables"`
	Entity    entityCmd    `cmd:"" help:"Make, show, change and delete the records of entities, and show their buckets." group:"limits"`
	Block     blockCmd     `cmd:"" help:"Shut out an entity, a plan, a resource or everybody." group:"limits"`
	Bucket    bucketCmd    `cmd:"" help:"Fill buckets by hand." group:"limits"`
	Namespace namespaceCmd `cmd:"" help:"Register, list, delete and purge the tenants of the table." group:"tables"`
	Audit     auditCmd     `cmd:"" help:"Show the changes with their authors and times." group:"look"`
	Template  templateCmd  `cmd:"" help:"Print a template of tables, roles, alarms and functions, for CloudFormation or Terraform." group:"tables"`
	Upgrade   upgradeCmd   `cmd:"" help:"Let a table have everything that this version can store." group:"tables"`
	Migrate   migrateCmd   `cmd:"" help:"Turn a table of the older layout into today's." group:"tables"`

	Usage   usageCmd   `cmd:"" help:"Show and export usage, by hour, day and month." group:"look"`
	Tail    tailCmd    `cmd:"" help:"Follow the table's stream, and turn it into usage." group:"look"`
	Top     topCmd     `cmd:"" help:"Show the fullest buckets of a resource, or those of an entity, once or as they change." group:"look"`
	Console consoleCmd `cmd:"" help:"Show limits, spend and entities in a browser on this machine." group:"look"`
	Doctor  doctorCmd  `cmd:"" help:"Diagnose the table, the credentials, the clock and the configuration." group:"look"`

	Budget budgetCommands `cmd:"" help:"Show and change the budgets of organisations and their apps." group:"budgets"`
	Keeper keeperCmd      `cmd:"" help:"Serve budgets over HTTP, for services without access to DynamoDB." group:"budgets"`

	Local           localCmd           `cmd:"" help:"Serve a DynamoDB in memory on this machine, for development and tests." group:"program"`
	Version         versionCmd         `cmd:"" help:"Show which release this is." group:"program"`
	Schema          schemaCmd          `cmd:"" help:"Print the JSON Schema of a command's output with --json." group:"program"`
	Completion      completionCmd      `cmd:"" help:"Print a script that makes a shell complete commands and flags." group:"program"`
	CompletionWords completionWordsCmd `cmd:"" hidden:"" help:"Print the completions of a word, for shells." group:"program"`
}

// main runs a command until its end, Ctrl-C or SIGTERM. A second signal ends the process at once.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(newCLI().runCommand(ctx, os.Args[1:], term.New(os.Stdin, os.Stdout, os.Getenv), os.Stderr))
}

// exit is an exit code. kong panics with it after --help, and run recovers it.
type exit int

// cli is the command line. It runs one command at a time.
type cli struct {
	commands
	*kong.Kong
}

// runCommand runs the command of args, prints results to out and errors to stderr, and returns the exit code.
// Without args or with "help" it prints the help, and with --version the version. It sets the notes and the
// JSON mode of out.
func (p *cli) runCommand(ctx context.Context, args []string, out *term.Output, stderr io.Writer) (code int) {
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
	if len(args) == 0 || args[0] == "help" { // for one command or for all
		args = append(args[min(1, len(args)):len(args):len(args)], "--help")
	}
	if asksVersion(args) {
		fmt.Fprintln(out, version.Current())
		return exitOK
	}
	ctx = connect.WithWriteMark(ctx)
	p.Stdout, p.Stderr = out, stderr
	command, err := p.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "dynalimit: %s\n%s\n", term.PlainLines(textOf(err)), helpHint(err))
		return exitUsage
	}
	out.JSON = p.JSON
	command.BindTo(ctx, (*context.Context)(nil))
	g := p.globals // an abandoned reading may still use them during the next command
	command.Bind(&g)
	switch err := cmp.Or(command.Run(out), out.Err()); {
	case err == nil:
		return exitOK
	case errors.Is(err, errNo):
		return exitNo
	default:
		fmt.Fprintf(out.Notes, "dynalimit: %s\n", term.PlainLines(strings.TrimPrefix(textOf(err), "dynalimit: ")))
		return codeOf(ctx, err)
	}
}

// newCLI returns the parser of all commands, with their help texts. Where kong would end the process, the
// parser panics with an exit, which runCommand recovers.
func newCLI() *cli {
	p := &cli{}
	p.Kong = kong.Must(&p.commands,
		kong.Name("dynalimit"),
		kong.Description("Rate limits and budgets for LLM calls, kept in DynamoDB."),
		kong.Exit(func(code int) { panic(exit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Help(printHelp),
		kong.ExplicitGroups([]kong.Group{
			{Key: "limits", Title: "Limits, and those they are of:"},
			{Key: "tables", Title: "Tables, and what belongs to them:"},
			{Key: "look", Title: "What is going on, and what was used:"},
			{Key: "budgets", Title: "Budgets:"},
			{Key: "program", Title: "This program:"},
			{Key: "where", Title: "Where the table is:"},
			{Key: "how", Title: "Every command:"},
		}),
		kong.Bind(&p.globals),
	)
	explainCommands(p.Model)
	return p
}

// helpHint returns a sentence that names the --help of the command that err, a parse error, is about, or of the
// program.
func helpHint(err error) string {
	name := "dynalimit"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil && parse.Context.Selected() != nil {
		name = parse.Context.Selected().FullPath()
	}
	return "Run '" + name + " --help' for its flags and examples."
}
