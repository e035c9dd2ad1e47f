package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/keeper/pricefeed"
)

// Bounds of what a client may send, and how slowly.
const (
	headerTime  = 5 * time.Second
	readTime    = 15 * time.Second
	writeTime   = 30 * time.Second
	idleTime    = time.Minute
	headerBytes = 16 << 10
)

// Parts are what a service is made of; all but Prices are needed.
type Parts struct {
	// Client reaches the control and usage tables, which Tables names.
	Client *dynamodb.Client
	Tables budget.Tables
	// Repository is the table of limits: it counts failed logins, and has the lease of the
	// one process that sweeps.
	Repository *dynalimit.Repository
	// Keys sign tokens, and hash secrets.
	Keys credentials.KeySource
	// Prices is where new prices come from. Nil: from nowhere.
	Prices pricefeed.Source
	// Principal is who makes changes that no request asked for.
	Principal string
	// Logger gets the access log, and what goes wrong. It must not wait for whoever reads it.
	Logger *slog.Logger
	// Log is what Logger writes to, for metrics and /ready. Nil: nothing that drops lines.
	Log *Log
	// Now is the clock. Defaults to the process's, corrected by DynamoDB's.
	Now func() time.Time
}

// Service is a keeper that serves. Make one with Open, and Serve it.
type Service struct {
	config  Config
	parts   Parts
	keeper  *budget.Keeper
	store   *credentials.Store
	limiter *dynalimit.RateLimiter
	handler *budgethttp.Server
	metrics *metrics
	now     func() time.Time

	api, operating         *http.Server
	apiListener, opsListen net.Listener // the latter nil for none
	ending                 atomic.Bool
}

// Open makes a service and begins to listen. It is to be served or closed.
func Open(ctx context.Context, config Config, parts Parts) (*Service, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	s := &Service{config: config, parts: parts, now: parts.Now}
	if s.now == nil {
		s.now = time.Now
	}
	s.metrics = newMetrics(s.now)
	err := s.build()
	if err == nil {
		s.storeDefaults(ctx)
		err = s.listen(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// options are those of the keeper.
func (s *Service) options() *budget.Options {
	p, c := s.parts, s.config
	return &budget.Options{
		Now: p.Now, Models: c.Defaults.Models, Prices: c.prices(), Staleness: time.Duration(c.Defaults.Staleness), ConfigTTL: time.Duration(c.Defaults.ConfigTTL),
		Principal: p.Principal, Logger: p.Logger, OnEvent: s.onEvent, Metering: budget.Metering(c.Metering), Linger: time.Duration(c.linger()), Spool: c.Spool, OnRefused: s.onRefused,
		OnUnavailable: budget.OnUnavailable{Recommend: budget.Policy(c.OnUnavailable.Recommend), Submit: budget.Policy(c.OnUnavailable.Submit)},
	}
}

func (s *Service) build() (err error) {
	p, c := s.parts, s.config
	s.keeper, err = budget.New(p.Client, p.Tables, s.options())
	if errors.Is(err, budget.ErrSpoolInUse) {
		return fmt.Errorf("%s is another keeper's spool: give each process a file of its own with --spool", c.Spool)
	}
	if err != nil {
		return err
	}
	logins := &credentials.Options{Keys: p.Keys, Now: p.Now, Principal: p.Principal, Logger: p.Logger}
	if c.ImportedHashes {
		logins.ImportedHash, logins.ImportedDecoy = budgethttp.VerifyBcrypt, credentials.NewSecret(decoy)
	}
	s.store, err = credentials.New(p.Client, p.Tables.Control, logins)
	if err != nil {
		return err
	}
	if s.limiter, err = dynalimit.New(p.Repository, &dynalimit.Options{Logger: p.Logger}); err != nil {
		return err
	}
	trusted, err := newProxies(c.BehindProxy, c.ForwardedHeader)
	if err != nil {
		return err
	}
	s.handler, err = budgethttp.New(s.keeper, s.store, &budgethttp.Options{
		Limiter: s.limiter, Issuer: c.Tokens.Issuer, Audience: c.Tokens.Audience,
		AccessTTL: time.Duration(c.Tokens.Access), RefreshTTL: time.Duration(c.Tokens.Refresh),
		Address: trusted.address, Now: p.Now, Logger: p.Logger, OnServed: s.metrics.onServed,
	})
	if err != nil {
		return err
	}
	s.api = s.server(cors(c.CORSOrigins, s.metrics.counting(s.handler)))
	s.operating = s.server(s.operations())
	return nil
}

func (s *Service) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: headerBytes, ErrorLog: slog.NewLogLogger(s.parts.Logger.Handler(), slog.LevelDebug),
	}
}

// onEvent tells the log, and counts.
func (s *Service) onEvent(ctx context.Context, e budget.Event) {
	s.metrics.onEvent(e)
	s.parts.Logger.InfoContext(ctx, "keeper: "+string(e.Kind), "event_id", e.ID, "org_id", e.Org, "app_id", e.App, "label", e.Label,
		"from", e.From, "day", e.Day, "percent", e.Percent, "spend_usd_micros", e.SpendMicros, "quota_usd_micros", e.QuotaMicros)
}

// onRefused tells the log of spooled usage that is counted no more; it stays in a file
// beside the spool.
func (s *Service) onRefused(u budget.SpooledUsage, err error) {
	s.parts.Logger.Error("keeper: spooled usage was refused", "file", s.config.Spool+".refused",
		"org_id", u.Org, "app_id", u.App, "request_id", u.Usage.RequestID, "error", err)
}

func (s *Service) listen(ctx context.Context) (err error) {
	if s.config.TLS.Cert != "" {
		if s.api.TLSConfig, err = s.config.TLS.config(); err != nil {
			return err
		}
	}
	if s.apiListener, err = listenOn(ctx, s.config.Listen, "--listen"); err != nil {
		return err
	}
	if s.config.Metrics != noMetrics {
		s.opsListen, err = listenOn(ctx, s.config.Metrics, "--metrics")
	}
	return err
}

func listenOn(ctx context.Context, address, flag string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use: stop what listens there, or choose another address with %s", address, flag)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another address with %s", address, err, flag)
	}
	return l, nil
}

// URL is where the API is.
func (s *Service) URL() string {
	scheme := "http://"
	if s.config.TLS.Cert != "" {
		scheme = "https://"
	}
	return scheme + s.apiListener.Addr().String()
}

// MetricsURL is where metrics are; "" for nowhere.
func (s *Service) MetricsURL() string {
	if s.opsListen == nil {
		return ""
	}
	return "http://" + s.opsListen.Addr().String()
}

// ready reports whether requests are to be sent here. While DynamoDB does not answer, no other
// process is better off: so it is as long as some are served, from memory or into the spool.
func (s *Service) ready() bool {
	health, policies := s.keeper.Health(), s.config.OnUnavailable
	serves := budget.Policy(policies.Recommend) != budget.Refuse || s.config.Spool != "" && budget.Policy(policies.Submit) != budget.Refuse
	return !s.ending.Load() && (health.Ready || health.Open && serves)
}

// Serve serves until ctx ends, then takes no more requests, lets those under way end, and
// writes what they have to write. It returns what went wrong; nothing if it ended in order.
func (s *Service) Serve(ctx context.Context) error {
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var work sync.WaitGroup
	if !s.config.Aggregation.Off {
		work.Go(func() { s.sweepAlone(beside) })
	}
	if s.parts.Prices != nil {
		work.Go(func() { s.refreshPrices(beside) })
	}
	s.parts.Logger.InfoContext(ctx, "keeper: serving", "url", s.URL(), "metrics", s.MetricsURL())
	served := make(chan error, 2)
	listening := 1
	go func() { served <- s.serveAPI() }()
	if s.opsListen != nil {
		listening++
		go func() { served <- s.operating.Serve(s.opsListen) }()
	}
	var failed error
	select {
	case failed = <-served:
		listening--
	case <-ctx.Done():
		s.parts.Logger.InfoContext(ctx, "keeper: ending", "delay", time.Duration(s.config.Shutdown.Delay).String(), "time", time.Duration(s.config.Shutdown.Time).String())
		s.drain()
	}
	s.ending.Store(true)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(s.config.Shutdown.Time))
	defer cancel()
	err := s.finish(closing)
	stop()
	work.Wait()
	err = errors.Join(err, s.closeParts(closing))
	_ = s.operating.Close() // metrics are there to the last
	for range listening {
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			failed = cmp.Or(failed, e)
		}
	}
	if err = errors.Join(failed, err); err != nil {
		s.parts.Logger.ErrorContext(ctx, "keeper: ended", "error", err)
	} else {
		s.parts.Logger.InfoContext(ctx, "keeper: ended")
	}
	return err
}

func (s *Service) serveAPI() error {
	if s.api.TLSConfig != nil {
		return s.api.ServeTLS(s.apiListener, "", "")
	}
	return s.api.Serve(s.apiListener)
}

// drain says that this process is not ready, and takes requests until that is known.
func (s *Service) drain() {
	s.ending.Store(true)
	if s.config.Shutdown.Delay > 0 {
		<-time.After(time.Duration(s.config.Shutdown.Delay))
	}
}

// finish lets requests under way end.
func (s *Service) finish(ctx context.Context) error {
	if err := s.api.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests were cut off after %v: give them longer with --shutdown-time", time.Duration(s.config.Shutdown.Time)), s.api.Close())
	}
	return nil
}

// closeParts writes what has to be written.
func (s *Service) closeParts(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(s.config.Shutdown.Time))
	defer cancel()
	if s.keeper != nil {
		err = s.keeper.Close(ctx)
	}
	if s.limiter != nil {
		err = errors.Join(err, s.limiter.Close(ctx))
	}
	return err
}

// Close ends a service that was not served.
func (s *Service) Close(ctx context.Context) error {
	if s.apiListener != nil {
		_ = s.apiListener.Close() // nobody was answered yet
	}
	if s.opsListen != nil {
		_ = s.opsListen.Close()
	}
	return s.closeParts(ctx)
}

// CreateTables makes the tables that are missing.
func (s *Service) CreateTables(ctx context.Context) error {
	if err := s.keeper.Setup().CreateTables(ctx); err != nil {
		return err
	}
	return s.parts.Repository.CreateTable(ctx)
}

// Look reads from the tables, so that wrong names and missing permissions are told before
// anybody asks.
func (s *Service) Look(ctx context.Context) error {
	if _, err := s.store.ListKeys(ctx); err != nil {
		return err
	}
	if _, err := s.parts.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(cmp.Or(s.parts.Tables.Usage, "usage")), Key: nothing}); err != nil {
		return err
	}
	_, err := admin.New(s.parts.Repository).Limits.GetConfig(ctx, admin.Scope{Everyone: true})
	return err
}

// nothing is a key that no item has.
var nothing = map[string]types.AttributeValue{
	"PK": &types.AttributeValueMemberS{Value: "NOTHING"}, "SK": &types.AttributeValueMemberS{Value: "#"},
}

// decoy is a bcrypt hash of nobody's, of the cost that most systems use: it makes the time
// of a failed login say nothing of who has an imported hash.
const decoy = "$2a$12$D58QqvvhlEqXbdO6x5wtkecUHsMeZtyRZtA71YJ./ekLS.yvSnj4q"
