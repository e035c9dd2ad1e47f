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

// Patient is the subject of an examination.
type Patient struct {
	// Client sends each request once and gives up after Timeout.
	Client tables.Client
	// Limits is the repository of the table, and Namespace its tenant or "".
	Limits    *dynalimit.Repository
	Namespace string
	// Tables are the table of limits and, if requested, those of budgets.
	Tables []tables.Plan
	// Region is the region of the requests, and Where describes the endpoint.
	Region, Where string
	// Engine is true if an engine replaces AWS.
	Engine bool
	// Credentials are the credentials of the requests. nil if none are needed.
	Credentials aws.CredentialsProvider
	// Identity asks AWS for the identity of the credentials. nil if AWS is not used.
	Identity func(context.Context) (string, error)
	// Profile is the profile of the credentials, or "".
	Profile string
	// Role is the role to test: RoleAcquire, RoleRead, RoleAdmin, or RoleService.
	Role Role
	// LocalFlags are flags that make 'dynalimit local' serve at the endpoint.
	LocalFlags string
	// Now is the clock of this machine.
	Now func() time.Time
	// Timeout bounds one request.
	Timeout time.Duration
}

// Role is a set of required permissions.
type Role string

const (
	// RoleService serves calls, and reads for `dynalimit`. It is the default.
	RoleService Role = "service"
	// RoleAcquire only serves calls.
	RoleAcquire Role = "acquire"
	// RoleRead reads.
	RoleRead Role = "read"
	// RoleAdmin changes limits, entities and buckets.
	RoleAdmin Role = "admin"
)

// visit is one examination.
type visit struct {
	Patient
	// down is the reason that requests to DynamoDB have stopped, or "".
	down string
	// served is true if a request about items was answered, throttled if one was throttled.
	served, throttled bool
	table             tables.Plan // the table of limits
	// described is the description of that table, or nil without a request.
	described *tableFacts
	// plans are the plans with limits. nil unless every source was read.
	plans map[string]bool
	// owners are the entities with their own sources.
	owners map[string]bool
	// resources are the resources with sources. groups maps the groups that resources name to
	// one of those resources.
	resources map[string]bool
	groups    map[string]string
	// alerted is a source of limits with alerts, "" without one.
	alerted string
}

// tableFacts are the facts about the table from the endpoint.
type tableFacts struct {
	*types.TableDescription
	// err is the error of the description.
	err error
	// date is DynamoDB's time, zero if the response has none. sent and received are this
	// machine's times around the request.
	date, sent, received time.Time
	reached              bool
}

// withTimeout returns a context that ends after v.Timeout, with the cause errSlow, to bound one request of a
// check, and its cancel function.
func (v *visit) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, v.Timeout, errSlow)
}

var errSlow = errors.New("no answer in time")

// tableCommand returns the text of the command "dynalimit WORDS" with the flags that reach the table of limits.
// It runs nothing.
func (v *visit) tableCommand(words string) string { return v.table.Flags.Command(words) }
