package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/user"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget"
)

// budgetCmd holds what all budget commands share; each finds the tables as they
// say.
type budgetCmd struct {
	Endpoint     string `help:"URL of a DynamoDB engine, such as http://127.0.0.1:8000 of 'dynalimit local'. Default: AWS, as the environment says." placeholder:"URL"`
	Region       string `help:"AWS region. Default: as the environment says."`
	Control      string `help:"Table of configuration and prices." default:"control"`
	Usage        string `help:"Table of counters, records and holds." default:"usage"`
	CreateTables bool   `help:"Create the two tables if they are missing."`
	Principal    string `help:"Who makes the changes, as their events are to tell. Default: your user name and this machine's." env:"DYNALIMIT_PRINCIPAL" placeholder:"NAME"`
	JSON         bool   `name:"json" help:"Print JSON, amounts in micro-dollars, for programs."`

	Orgs     orgsCmd     `cmd:"" help:"List, show and configure organisations."`
	Apps     appsCmd     `cmd:"" help:"List, show and configure the apps of an organisation."`
	Quotas   quotasCmd   `cmd:"" help:"Show or set what labels may cost."`
	Today    todayCmd    `cmd:"" help:"Show what each label has cost today, as bars."`
	History  historyCmd  `cmd:"" help:"Show what the last days cost, as a chart."`
	Override overrideCmd `cmd:"" help:"Force an app's label for some time, or end that."`
	Adjust   adjustCmd   `cmd:"" help:"Charge or credit a label's day by hand."`
	Sweep    sweepCmd    `cmd:"" help:"Close days that are over and give back expired holds."`

	Recommend   recommendCmd   `cmd:"" help:"Show which label an app may use now, and why."`
	Adjustments adjustmentsCmd `cmd:"" help:"List what was charged and credited by hand."`
	Tags        tagsCmd        `cmd:"" help:"Show what a tag's values cost on one day."`
	Events      eventsCmd      `cmd:"" help:"List quotas that were nearly or wholly used."`
	Prices      pricesCmd      `cmd:"" help:"List or store prices of models."`

	notes io.Writer // of what is no result
}

// AfterApply is called by the parser.
func (b *budgetCmd) AfterApply(out *output) error { //nolint:unparam // the parser wants an error
	b.notes = out.notes
	return nil
}

// patience is how long a command waits before it says for what.
var patience = time.Second

// tellIfSlow says what is waited for, unless it is over soon.
func (b *budgetCmd) tellIfSlow() (over func()) {
	told := make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		defer close(told)
		where := "DynamoDB"
		if b.Endpoint != "" {
			where += " at " + b.Endpoint
		}
		fmt.Fprintf(b.notes, "dynalimit: waiting for %s; Ctrl-C ends it\n", where)
	})
	return func() {
		if !timer.Stop() {
			<-told
		}
	}
}

// closingTime bounds what a keeper writes after its command.
const closingTime = 15 * time.Second

// clockKey is where a test puts its clock into a context.
type clockKey struct{}

func clockOf(ctx context.Context) func() time.Time {
	if now, ok := ctx.Value(clockKey{}).(func() time.Time); ok {
		return now
	}
	return time.Now
}

// principal is who makes the changes; empty if nobody says and the system does not know.
func (b *budgetCmd) principal() string {
	if b.Principal != "" {
		return b.Principal
	}
	who, err := user.Current()
	if err != nil {
		return ""
	}
	host, err := os.Hostname()
	if err != nil {
		return who.Username
	}
	return who.Username + "@" + host
}

// with runs a command on a keeper of the tables.
func (b *budgetCmd) with(ctx context.Context, run func(*budget.Keeper) error) error {
	client, err := b.client(ctx)
	if err != nil {
		return err
	}
	keeper, err := budget.New(client, budget.Tables{Control: b.Control, Usage: b.Usage}, &budget.Options{Now: clockOf(ctx)})
	if err != nil {
		return b.explain(err)
	}
	defer b.tellIfSlow()()
	if b.CreateTables {
		err = keeper.CreateTables(ctx)
	}
	if err == nil {
		err = run(keeper.As(b.principal()))
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	return b.explain(errors.Join(err, keeper.Close(closing)))
}

// endpointOptions checks the endpoint. An engine on this machine takes any
// credentials, and any region.
func (b *budgetCmd) endpointOptions() ([]func(*config.LoadOptions) error, error) {
	if b.Endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(b.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("--endpoint %q is not a URL: write it like http://127.0.0.1:8000", b.Endpoint)
	}
	ip := net.ParseIP(u.Hostname())
	if local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(); !local || os.Getenv("AWS_ACCESS_KEY_ID") != "" {
		return nil, nil
	}
	return []func(*config.LoadOptions) error{
		config.WithDefaultRegion("us-east-1"),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("local", "local", "")),
	}, nil
}

// client is an SDK client.
func (b *budgetCmd) client(ctx context.Context) (*dynamodb.Client, error) {
	options, err := b.endpointOptions()
	if err != nil {
		return nil, err
	}
	if b.Region != "" {
		options = append(options, config.WithRegion(b.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("the AWS configuration cannot be read: %w; correct it or use --endpoint", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("no AWS region is configured: give --region or set AWS_REGION, or use --endpoint for an engine on this machine")
	}
	return dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if b.Endpoint != "" {
			o.BaseEndpoint = aws.String(b.Endpoint)
		}
	}), nil
}

// explain says what to do about an error.
func (b *budgetCmd) explain(err error) error {
	var missing *types.ResourceNotFoundException
	var bad *budget.ValidationError
	var gone *budget.UnavailableError
	next := ""
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing):
		return fmt.Errorf("table %q or %q is missing: name yours with --control and --usage, or make them with --create-tables", b.Control, b.Usage)
	case errors.Is(err, budget.ErrNotFound):
		next = "list what there is with 'dynalimit budget orgs list' and 'dynalimit budget apps list ORG'"
	case errors.As(err, &bad):
		if flag := flagOf(err); flag != "" {
			next = "it is what " + flag + " says, or does not say; "
		}
		next += "correct it and try again; --help has an example"
	case errors.Is(err, budget.ErrConflict):
		next = "somebody else changed it at the same time: try again"
	case errors.Is(err, syscall.ECONNREFUSED):
		next = "start an engine there with 'dynalimit local', or correct --endpoint"
	case errors.As(err, &gone):
		next = "check --endpoint, --region and your credentials, and try again"
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, next)
}

// show prints a value as JSON, or by a function for people.
func (b *budgetCmd) show(out *output, value any, people func()) error {
	if !b.JSON {
		people()
		return nil
	}
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}
