package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
)

// Patient is what is examined.
type Patient struct {
	// Client asks DynamoDB, once each time, and gives up after Timeout.
	Client tables.Client
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

// Role says what somebody has to be permitted.
type Role string

const (
	// RoleService serves calls, and reads what `dynalimit` shows. It is the default.
	RoleService Role = "service"
	// RoleAcquire serves calls, and no more.
	RoleAcquire Role = "acquire"
	// RoleRead reads.
	RoleRead Role = "read"
	// RoleAdmin changes limits, entities and buckets.
	RoleAdmin Role = "admin"
)

// visit is one examination.
type visit struct {
	Patient
	// down says why DynamoDB is not asked any more, "" while it answers.
	down string
	// served means that a request about items was answered, throttled that one was refused
	// because DynamoDB is too busy.
	served, throttled bool
	table             tables.Plan // of limits
	// described is that table, nil if nothing was asked.
	described *tableFacts
	// plans are those that have limits; nil unless every level was read.
	plans map[string]bool
	// owners are the entities that have levels of their own.
	owners map[string]bool
	// resources are those that have levels, and groups those that resources name, each with
	// one of those.
	resources map[string]bool
	groups    map[string]string
}

// tableFacts are what the endpoint said about the table.
type tableFacts struct {
	*types.TableDescription
	// err is why there is none.
	err error
	// date is DynamoDB's time, the zero Time if the answer had none, and sent and received
	// are this machine's around it.
	date, sent, received time.Time
	reached              bool
}

// timed bounds what one request of a check may take.
func (v *visit) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, v.Timeout, errSlow)
}

var errSlow = errors.New("no answer in time")

// command is a command of dynalimit about the table of limits.
func (v *visit) command(words string) string { return v.table.Flags.Command(words) }
