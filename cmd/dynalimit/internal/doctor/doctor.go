// Package doctor examines what a limiter needs: the endpoint, credentials, the table and
// its settings, the clock, the layout, permissions, the configuration. It writes nothing:
// what may be written is asked under conditions that cannot hold.
package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
)

// Client is what DynamoDB is asked; *dynamodb.Client is one.
type Client interface {
	tables.Reader
	Reader
	Writer
}

// Reader reads tables and items.
type Reader interface {
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// Writer changes items.
type Writer interface {
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

var _ Client = (*dynamodb.Client)(nil)

// Patient is what is examined.
type Patient struct {
	// Client asks DynamoDB, once each time, and gives up after Timeout.
	Client Client
	// Limits is the table as the library sees it, and Namespace its tenant, "" for none.
	Limits    *dynalimit.Repository
	Namespace string
	// Tables are that of limits and those of budgets, if they are asked for.
	Tables []tables.Plan
	// Region is the one that is asked, and Where the endpoint in words.
	Region, Where string
	// Engine means that an engine is asked in place of AWS.
	Engine bool
	// Credentials are those of the requests; nil where none are asked for.
	Credentials aws.CredentialsProvider
	// Identity asks AWS who they are; nil where nobody knows.
	Identity func(context.Context) (string, error)
	// Profile is the profile that the credentials come from, "" for none named.
	Profile string
	// Role is what is to be permitted: RoleAcquire, RoleRead, RoleAdmin, or RoleService.
	Role Role
	// LocalFlags are what has 'dynalimit local' serve where the endpoint is.
	LocalFlags string
	// Now is the clock of this machine.
	Now func() time.Time
	// Timeout is how long a request may take.
	Timeout time.Duration
}

// check examines one thing. What it needs of others is in the visit.
type check struct {
	name, doing string
	run         func(*visit, context.Context) []tables.Finding
}

// checks are all of them, in an order in which each knows what it needs.
var checks = []check{
	{"region", "finding the region", one((*visit).region)},
	{"credentials", "asking who the credentials are", one((*visit).credentials)},
	{"endpoint", "asking the endpoint", one((*visit).endpoint)},
	{"clock", "comparing clocks", one((*visit).clock)},
	{"table", "looking at the table", (*visit).limitsTable},
	{"permissions", "trying what is permitted", (*visit).permissions},
	{"namespace", "reading the namespace", one((*visit).namespace)},
	{"configuration", "reading every level of the configuration", (*visit).configuration},
	{"names", "looking for plans and parents that are nowhere", one((*visit).names)},
	{"system limits", "reading the system's limits", one((*visit).systemLimits)},
	{"usage", "looking how far usage is summed up", one((*visit).usage)},
	{"budget tables", "looking at the tables of budgets", (*visit).budgetTables},
}

func one(run func(*visit, context.Context) tables.Finding) func(*visit, context.Context) []tables.Finding {
	return func(v *visit, ctx context.Context) []tables.Finding { return []tables.Finding{run(v, ctx)} }
}

// Examine runs every check, and says before each what it is doing. It goes on after what is
// wrong; a check that hangs ends with its timeout, and what depends on it is Unchecked. It
// stops when ctx ends.
func Examine(ctx context.Context, p Patient, doing func(string)) ([]tables.Finding, error) {
	v := &visit{Patient: p, table: p.Tables[0]}
	var all []tables.Finding
	for _, c := range checks {
		if ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
		doing(c.doing)
		for _, r := range c.run(v, ctx) {
			if r.Check == "" {
				r.Check = c.name
			}
			all = append(all, r)
		}
	}
	if ctx.Err() != nil { // the last check was cut short
		return all, context.Cause(ctx)
	}
	return all, nil
}

// Worst is the worst status of results.
func Worst(results []tables.Finding) tables.Status {
	rank := map[tables.Status]int{tables.OK: 0, tables.Hint: 1, tables.Unchecked: 2, tables.Warning: 3, tables.Wrong: 4}
	worst := tables.OK
	for _, r := range results {
		if rank[r.Status] > rank[worst] {
			worst = r.Status
		}
	}
	return worst
}

// visit is one examination.
type visit struct {
	Patient
	// down says why DynamoDB is not asked any more, "" while it answers.
	down  string
	table tables.Plan // of limits
	// described is that table, nil if nothing was asked.
	described *tableFacts
	// plans are those that have limits; nil unless every level was read.
	plans map[string]bool
}

// timed bounds what one request of a check may take.
func (v *visit) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, v.Timeout, errSlow)
}

var errSlow = errors.New("no answer in time")

// command is a command of dynalimit about the table of limits.
func (v *visit) command(words string) string { return v.table.Flags.Command(words) }
