package dynalimit

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/backlog"
	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/legacy"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/store"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// DynamoDB is the part of the DynamoDB client a Repository uses.
// *dynamodb.Client implements it.
type DynamoDB interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
}

// RepositoryOptions configures a Repository. Every field is optional: the zero value,
// and nil passed to NewRepository, give the defaults that the fields name.
type RepositoryOptions struct {
	// Namespace is a tenant of the table. It prefixes every partition key, so that several tenants
	// share a table without access to each other's entities, limits, buckets or events. Register it
	// first (admin.Namespaces.Register, on a repository without a namespace). Calls and changes in an
	// unregistered namespace fail with a *fault.NamespaceError, so that a misspelt name makes no new
	// tenant. Defaults to none.
	Namespace string
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// CorrectClock estimates the offset to DynamoDB's clock from the Date of
	// its answers and corrects for it when it exceeds a second. Defaults to
	// on with the default Now, off with a Now of your own.
	CorrectClock *bool
	// ConfigTTL is how long resolved configuration is used before it is read
	// again: a changed limit is in force everywhere within it. Defaults to
	// 60 s; in a namespace it is at most 5 minutes, because a purge waits for it.
	ConfigTTL time.Duration
	// MaxStale bounds the use of resolved configuration past its TTL. Stale configuration is used while
	// the table does not answer, or reads of the configuration get no answer or are throttled. Defaults
	// to an hour.
	MaxStale time.Duration
	// ConfigCacheSize bounds the number of cached (entity, resource) configurations. One takes 0.35 kB
	// without stored limits, where Options.Limits apply, 0.44 kB with one stored limit and 1.1 kB with
	// ten. Defaults to 100,000.
	ConfigCacheSize int
	// RequestTimeout bounds one request, including the SDK's tries of it. So it also bounds a write
	// after its caller has left. A request that takes the whole time means that DynamoDB does not
	// answer. Creating and describing the table, and the requests of package admin, may take 10 s.
	// Defaults to 1 s.
	RequestTimeout time.Duration
	// Compatible keeps the table readable for zae-limiter. Limits and resources that zae-limiter
	// refuses are then a *ValidationError: a limit with a burst below its capacity, and a resource that
	// is longer than 64 characters, does not start with a letter, or contains ':' or '@'. Stored ones
	// stay as they are. Defaults to false.
	Compatible bool
	// Principal is the author of changes through this Repository: an address, an ARN, the name of a
	// service, at most 256 visible characters. Repository.As sets another one. Defaults to none: then a
	// change is a *ValidationError, unless AllowAnonymous is set.
	Principal string
	// AllowAnonymous permits changes without a principal: their events have no author. Defaults to
	// false.
	AllowAnonymous bool
	// AuditRetention is how long the event of a change is kept; a negative one is for
	// ever. Defaults to 90 days.
	AuditRetention time.Duration
	// Logger receives the messages for operators. Defaults to silence.
	Logger *slog.Logger
}

// Repository is one DynamoDB table, with its namespace, that limiters read and charge. Make one with
// NewRepository, and a RateLimiter on it with New; several limiters may share it. It is safe for
// concurrent use. The zero value is not usable.
//
// CreateTable makes the table, or TableInput describes it for infrastructure code. Package admin sets
// limits, makes entities and shows buckets: admin.New takes a Repository.
//
// A Repository has no goroutine, with one exception: while limiters use it and the table does not
// answer, one goroutine asks whether the table answers again.
type Repository struct {
	*connection
	// author is the principal of changes through this Repository; empty if it is not known.
	author string
	// reason is stored in the events of the changes; empty for none.
	reason string
}

// connection is the shared state of the repositories that come from one NewRepository.
type connection struct {
	// given and options are the arguments of NewRepository. client sends through given, and measures
	// it.
	given   DynamoDB
	options RepositoryOptions
	client  DynamoDB
	table   string
	store   *table.Table
	// guarded is the store for changes by administrators, and events stores their events.
	guarded *table.Table
	ids     trail.IDs
	events  trail.Layout
	keys    schema.Keys
	clock   *ddb.Clock
	machine bool // the clock's source is the machine's own
	// breaker records every request for data of the table. listeners are called when it opens and
	// closes.
	breaker   *ddb.Breaker
	listeners hearers
	log       *slog.Logger
	configs   configCache
	sets      *schema.LimitSets
	readable  bool // for zae-limiter: Compatible
	layout    *layout.Layout
	buckets   *store.Buckets
	// namespace is the last read state of the namespace's record; nil without a namespace.
	namespace *call.Namespace
	// queues admit calls by the process's share while buckets do not answer. turns spaces the later
	// writes of its limiters.
	queues *backlog.Queues
	turns  lane.Turns
	// passes bounds the turns that lanes of its limiters have in flight.
	passes *lane.Passes
	// anonymous permits changes without a known author.
	anonymous bool
}

const (
	// mostQueues bounds the buckets for which a process admits calls on its own.
	mostQueues = 100_000
	// fewestPerProcessor is the number of turns that lanes may always have in flight for each processor.
	fewestPerProcessor = 8
)

// NewRepository returns a repository for a table; nil options are the defaults. It does no I/O: CreateTable
// makes the table. It logs a warning for a *dynamodb.Client that keeps 10 idle connections or fewer: see
// package awsclient. It fails with a *ValidationError for a bad client, table name or option.
func NewRepository(client DynamoDB, table string, opts *RepositoryOptions) (*Repository, error) {
	if problem.IsNil(client) {
		return nil, invalid("client", "is nil; pass the client of awsclient.New, or ddbmem.New().Client() in tests")
	}
	if strings.TrimSpace(table) == "" {
		return nil, invalid("table", "is empty; name the DynamoDB table")
	}
	if reason := ddb.CheckTable(table); reason != "" {
		return nil, invalid("table", "%s", reason)
	}
	var o RepositoryOptions
	if opts != nil {
		o = *opts
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	warnOfFewConnections(client, o.Logger)
	return o.newRepository(client, table, schema.NewKeys(o.Namespace)), nil
}

// newRepository makes the repository of valid options without unset fields, except Now, which defaults to
// time.Now. It sends nothing.
func (o RepositoryOptions) newRepository(client DynamoDB, name string, keys schema.Keys) *Repository {
	given, machine := o, o.Now == nil
	if machine {
		o.Now = time.Now
	}
	clock := ddb.NewClock(o.Now, *o.CorrectClock)
	r := &Repository{author: o.Principal, connection: &connection{
		given:     client,
		options:   given,
		table:     name,
		keys:      keys,
		clock:     clock,
		machine:   machine,
		log:       o.Logger,
		sets:      schema.NewLimitSets(),
		readable:  o.Compatible,
		anonymous: o.AllowAnonymous,
		queues:    backlog.NewQueues(mostQueues),
		passes:    lane.NewPasses(fewestPerProcessor * runtime.GOMAXPROCS(0)),
	}}
	r.breaker = r.newBreaker()
	watched := ddb.Watch(client, r.breaker, clock, o.RequestTimeout)
	r.client = watched
	r.store = &table.Table{Client: watched, Name: name, RetryAfter: r.breaker.RetryAfter}
	r.layout = &layout.Layout{Table: r.store, Now: clock.Source, Log: o.Logger}
	r.events = trail.Layout{Prefix: r.keys.Prefix(), TTL: schema.TTL, Retention: max(o.AuditRetention, 0), Indexed: true}
	r.guarded = shared.GuardTable(&table.Table{Client: watched.WithControlTimeout(), Name: name, RetryAfter: r.breaker.RetryAfter}, r.keys, r.layout.Check)
	turner := &legacy.Turner{Table: r.store, Now: clock.NowMS}
	r.buckets = &store.Buckets{
		Table: r.store, Once: watched.Once(), Keys: r.keys, Layout: r.layout, Sets: r.sets, Takeover: store.NewTakeover(r.layout, turner, r.keys, r.sets, o.ConfigCacheSize),
	}
	if _, bound := keys.Namespace(); bound {
		r.namespace = &call.Namespace{Now: clock.Source, TTL: o.ConfigTTL}
	}
	r.configs = configCache{layout: r.layout, Cache: config.New(config.Options{
		Store: &configStore{r.store, keys, r.layout, r.buckets.Takeover, r.namespace, r.breaker, clock.Tick},
		Now:   clock.Source, Clock: clock, Keys: keys, Size: o.ConfigCacheSize, TTL: o.ConfigTTL, MaxStale: o.MaxStale, Log: o.Logger, Loaded: r.configLoaded,
	})}
	return r
}

// validate returns a *ValidationError for the first invalid option; nil if all are valid.
func (o RepositoryOptions) validate() error {
	if o.Namespace != "" {
		if reason := schema.EntityRule.Check(o.Namespace); reason != "" {
			return invalid("options.Namespace", "%s", reason)
		}
	}
	if err := checkNow(o.Now); err != nil {
		return err
	}
	for field, d := range map[string]time.Duration{"ConfigTTL": o.ConfigTTL, "MaxStale": o.MaxStale, "RequestTimeout": o.RequestTimeout} {
		if d < 0 {
			return invalid("options."+field, "is %v; give a positive duration, or 0 for the default", d)
		}
	}
	if o.Namespace != "" && o.ConfigTTL > shared.LongestTTL {
		return invalid("options.ConfigTTL", "is %v; with a Namespace give at most %v, because the purge of a deleted one waits until every limiter has noticed", o.ConfigTTL, shared.LongestTTL)
	}
	if o.Principal != "" {
		if reason := trail.CheckPrincipal(o.Principal); reason != "" {
			return invalid("options.Principal", "%s", reason)
		}
	}
	if o.ConfigCacheSize < 0 {
		return invalid("options.ConfigCacheSize", "is %d; give a positive number, or 0 for the default", o.ConfigCacheSize)
	}
	return nil
}

// withDefaults returns the options with defaults for the unset ones, except Now.
func (o RepositoryOptions) withDefaults() RepositoryOptions {
	if o.CorrectClock == nil {
		correct := o.Now == nil
		o.CorrectClock = &correct
	}
	if o.ConfigTTL == 0 {
		o.ConfigTTL = time.Minute
	}
	if o.MaxStale == 0 {
		o.MaxStale = time.Hour
	}
	if o.ConfigCacheSize == 0 {
		o.ConfigCacheSize = 100_000
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = time.Second
	}
	if o.AuditRetention == 0 {
		o.AuditRetention = defaultRetention
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Namespace returns the name of the namespace. It is empty without one, and for a repository that NewRepository
// did not make.
func (r *Repository) Namespace() string {
	if !r.made() {
		return ""
	}
	return r.keys.Name()
}

// Table returns the name of the table. It is empty for a repository that NewRepository did not make.
func (r *Repository) Table() string {
	if !r.made() {
		return ""
	}
	return r.table
}

// checkUsable returns a *ValidationError for a repository that NewRepository did not make and for a nil
// context, and ctx's error if that has ended.
func (r *Repository) checkUsable(ctx context.Context) error {
	if !r.made() {
		return invalid("repository", "was not made by NewRepository; make one with dynalimit.NewRepository(client, table, nil)")
	}
	if err := checkContext(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// made reports whether NewRepository made the repository. It is false for a nil or zero repository.
func (r *Repository) made() bool { return r != nil && r.connection != nil }

// checkCompatible returns a *ValidationError for a resource or a limit that zae-limiter cannot read: some
// resource names, and bursts below the capacity. It is for a repository that must stay readable for
// zae-limiter.
func checkCompatible(resource, field string, limits []Limit) error {
	return shared.CheckCompatible(resource, field, storedLimits(limits))
}

// defaultRetention is the default time for which events are kept, and the reach of a query where they
// are kept for ever.
const defaultRetention = 90 * 24 * time.Hour

// fewConnections is the number of idle connections that the SDK's own client keeps.
const fewConnections = 10

// warnOfFewConnections logs a warning for a client that keeps 10 idle connections or fewer, because a busy
// process opens new ones all the time. It skips clients with an unknown kind of transport.
func warnOfFewConnections(client DynamoDB, log *slog.Logger) {
	c, ok := client.(interface{ Options() dynamodb.Options })
	if !ok {
		return
	}
	var transport *http.Transport
	switch h := c.Options().HTTPClient.(type) {
	case *awshttp.BuildableClient:
		transport = h.GetTransport()
	case *http.Client:
		transport, _ = h.Transport.(*http.Transport)
	}
	if transport == nil {
		return
	}
	if n := cmp.Or(transport.MaxIdleConnsPerHost, http.DefaultMaxIdleConnsPerHost); n <= fewConnections {
		log.Warn("the client of DynamoDB keeps few idle connections, so a busy process makes a new one for many requests; make the client with awsclient.New",
			slog.Int("idle_connections", n))
	}
}
