// Package doctor examines what a limiter needs: the endpoint, credentials, the table and
// its settings, the clock, the layout, permissions, the configuration. It writes nothing:
// what may be written is asked under conditions that cannot hold.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
)

// Status is how a check ended.
type Status string

const (
	// OK means that all is well.
	OK Status = "ok"
	// Hint means that all is well, and something could be better.
	Hint Status = "hint"
	// Warning means that it works now, and may not always.
	Warning Status = "warning"
	// Wrong means that calls fail, or do what nobody wants.
	Wrong Status = "wrong"
	// Unchecked means that it could not be found out.
	Unchecked Status = "unchecked"
)

// Result is what a check found. It is a plain value, and its JSON is what `doctor --json`
// prints.
type Result struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Found is what was found, or why nothing could be.
	Found string `json:"found"`
	// Means says what follows from it; empty where all is well.
	Means string `json:"means,omitempty"`
	// Fix is a command that makes it right; empty where there is none.
	Fix string `json:"fix,omitempty"`
}

// Client is what DynamoDB is asked; *dynamodb.Client is one.
type Client interface {
	Describer
	Writer
	Reader
}

// Describer says what a table is like.
type Describer interface {
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	DescribeContinuousBackups(context.Context, *dynamodb.DescribeContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeContinuousBackupsOutput, error)
}

// Reader reads items.
type Reader interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
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

// Limits are what is read of the configuration; *dynalimit.Repository is one.
type Limits interface {
	TableInput() *dynamodb.CreateTableInput
	Scopes(ctx context.Context) iter.Seq2[dynalimit.Scope, error]
	Entities(ctx context.Context) iter.Seq2[dynalimit.Entity, error]
	GetConfigs(ctx context.Context, at []dynalimit.Scope) ([]dynalimit.ScopedConfig, error)
	GetConfig(ctx context.Context, at dynalimit.Scope) (dynalimit.LimitConfig, error)
}

// Patient is what is examined.
type Patient struct {
	// Client asks DynamoDB, once each time.
	Client Client
	// Limits is the table as the library sees it.
	Limits Limits
	// Try asks what a call would be told: it fails as calls do, and takes nothing.
	Try func(context.Context) error
	// Table is its name, and Namespace the tenant, "" for none.
	Table, Namespace string
	// Budget are the tables of budgets, none if they are not asked for.
	Budget []string
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
	// Flags are what has to follow a command to be about this table.
	Flags, AWSFlags, BudgetFlags string
	// LocalFlags are what has 'dynalimit local' serve where the endpoint is.
	LocalFlags string
	// Now is the clock of this machine.
	Now func() time.Time
	// Timeout bounds each request. Defaults to 5 s.
	Timeout time.Duration
}

// check examines one thing. What it needs of others is in the visit.
type check struct {
	name, doing string
	run         func(*visit, context.Context) []Result
}

// checks are all of them, in an order in which each knows what it needs.
var checks = []check{
	{"region", "finding the region", one((*visit).region)},
	{"credentials", "asking who the credentials are", one((*visit).credentials)},
	{"endpoint", "asking the endpoint", one((*visit).endpoint)},
	{"clock", "comparing clocks", one((*visit).clock)},
	{"table", "looking at the table", one((*visit).table)},
	{"keys", "looking at its keys", one((*visit).keys)},
	{"indexes", "looking at its indexes", (*visit).indexes},
	{"billing", "looking at its billing", one((*visit).billing)},
	{"ttl", "looking at its time to live", one((*visit).ttl)},
	{"stream", "looking at its stream", one((*visit).stream)},
	{"recovery", "looking at its point-in-time recovery", one((*visit).recovery)},
	{"protection", "looking at its deletion protection", one((*visit).protection)},
	{"layout", "reading the record of its version", one((*visit).layout)},
	{"older items", "looking whether it was migrated", one((*visit).legacy)},
	{"permissions", "trying what is permitted", (*visit).permissions},
	{"namespace", "reading the namespace", one((*visit).namespace)},
	{"configuration", "reading every level of the configuration", (*visit).configuration},
	{"names", "looking for plans and parents that are nowhere", one((*visit).names)},
	{"system limits", "reading the system's limits", one((*visit).systemLimits)},
	{"usage", "looking how far usage is summed up", one((*visit).usage)},
	{"budget tables", "looking at the tables of budgets", (*visit).budget},
}

func one(run func(*visit, context.Context) Result) func(*visit, context.Context) []Result {
	return func(v *visit, ctx context.Context) []Result { return []Result{run(v, ctx)} }
}

// Examine runs every check, and says before each what it is doing. It goes on after what is
// wrong; a check that hangs ends with its timeout, and what depends on it is Unchecked. It
// stops when ctx ends.
func Examine(ctx context.Context, p Patient, doing func(string)) ([]Result, error) {
	if p.Timeout == 0 {
		p.Timeout = 5 * time.Second
	}
	v := &visit{Patient: p}
	var all []Result
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
func Worst(results []Result) Status {
	rank := map[Status]int{OK: 0, Hint: 1, Unchecked: 2, Warning: 3, Wrong: 4}
	worst := OK
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
	down string
	// described is the table, nil if it could not be described; undescribed says why.
	described   *tableFacts
	undescribed string
	// plans are those that have limits; nil unless every level was read.
	plans map[string]bool
}

// timed bounds what one request of a check may take.
func (v *visit) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, v.Timeout, errSlow)
}

var errSlow = errors.New("no answer in time")

// command is a command of dynalimit about this table.
func (v *visit) command(words string) string { return "dynalimit " + words + v.Flags }

// awsCommand is a command of AWS's command line about this table.
func (v *visit) awsCommand(format string, args ...any) string {
	return "aws " + fmt.Sprintf(format, args...) + v.AWSFlags
}

func ok(found string, args ...any) Result {
	return Result{Status: OK, Found: fmt.Sprintf(found, args...)}
}

func unchecked(why string, args ...any) Result {
	return Result{Status: Unchecked, Found: fmt.Sprintf(why, args...)}
}
