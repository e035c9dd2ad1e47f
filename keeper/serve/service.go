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

// Limits for the size and the speed of clients' requests.
const (
	headerTime  = 5 * time.Second
	readTime    = 15 * time.Second
	writeTime   = 30 * time.Second
	idleTime    = time.Minute
	headerBytes = 16 << 10
)

// Parts are the parts of a service. All except Prices are required.
type Parts struct {
	// Client accesses the control and usage tables, which Tables names.
	Client *dynamodb.Client
	Tables budget.Tables
	// Repository is the table of limits. It counts failed logins, and contains the lease of the
	// one process that sweeps.
	Repository *dynalimit.Repository
	// Keys sign tokens and hash secrets.
	Keys credentials.KeySource
	// Prices is the source of new prices. nil turns the import off.
	Prices pricefeed.Source
	// Principal is the author of changes without a request.
	Principal string
	// Logger gets the access log and errors. It must not block.
	Logger *slog.Logger
	// Log is the target of Logger, for metrics and /ready. nil if the logger drops no lines.
	Log *Log
	// Now is the clock. Defaults to the process's clock, corrected by DynamoDB's.
	Now func() time.Time
}

// Service is a serving keeper. Make one with Open, and call Serve.
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
	apiListener, opsListen net.Listener // the second is nil without metrics
	ending                 atomic.Bool
}

// Open makes a service, stores default models and prices that the tables lack, and opens its listeners;
// requests wait until Serve. Call Serve or Close afterwards. After an error it has closed everything.
func Open(ctx context.Context, config Config, parts Parts) (*Service, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	s := &Service{config: config, parts: parts, now: parts.Now}
	if s.now == nil {
		s.now = time.Now
	}
	s.metrics = newMetrics(s.now)
	err := s.buildParts()
	if err == nil {
		s.storeDefaults(ctx)
		err = s.openListeners(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// keeperOptions returns the options for budget.New, from the configuration and the parts. Events and refused
// usage go to the service's own log and metrics.
func (s *Service) keeperOptions() *budget.Options {
	p, c := s.parts, s.config
	return &budget.Options{
		Now: p.Now, Models: c.Defaults.Models, Prices: c.defaultPrices(), Staleness: time.Duration(c.Defaults.Staleness), ConfigTTL: time.Duration(c.Defaults.ConfigTTL),
		Principal: p.Principal, Logger: p.Logger, OnEvent: s.onEvent, Metering: budget.Metering(c.Metering), Linger: time.Duration(c.lingerOrDefault()), Spool: c.Spool, OnRefused: s.onRefused,
		OnUnavailable: budget.OnUnavailable{Recommend: budget.Policy(c.OnUnavailable.Recommend), Submit: budget.Policy(c.OnUnavailable.Submit)},
	}
}

// buildParts sets the service's keeper, store of credentials, limiter of failed logins, API handler and both
// HTTP servers. It opens no listener. After an error the parts made so far remain, for Close to release.
func (s *Service) buildParts() (err error) {
	p, c := s.parts, s.config
	s.keeper, err = budget.New(p.Client, p.Tables, s.keeperOptions())
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
		Address: trusted.clientAddress, Now: p.Now, Logger: p.Logger, OnServed: s.metrics.onServed,
	})
	if err != nil {
		return err
	}
	s.api = s.newServer(allowOrigins(c.CORSOrigins, s.metrics.countInFlight(s.handler)))
	s.operating = s.newServer(s.operationsHandler())
	return nil
}

// newServer returns an HTTP server for h with this package's limits of time and size. It does not start it.
// Connection errors are logged at debug level.
func (s *Service) newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: headerBytes, ErrorLog: slog.NewLogLogger(s.parts.Logger.Handler(), slog.LevelDebug),
	}
}

// onEvent counts an event of the keeper in the metrics and logs it with its organisation, app, label and
// amounts.
func (s *Service) onEvent(ctx context.Context, e budget.Event) {
	s.metrics.onEvent(e)
	s.parts.Logger.InfoContext(ctx, "keeper: "+string(e.Kind), "event_id", e.ID, "org_id", e.Org, "app_id", e.App, "label", e.Label,
		"from", e.From, "day", e.Day, "percent", e.Percent, "spend_usd_micros", e.SpendMicros, "quota_usd_micros", e.QuotaMicros)
}

// onRefused logs as an error spooled usage that will never be counted, with its ids and the file that keeps it.
// It changes nothing.
func (s *Service) onRefused(u budget.SpooledUsage, err error) {
	s.parts.Logger.Error("keeper: spooled usage was refused", "file", s.config.Spool+".refused",
		"org_id", u.Org, "app_id", u.App, "request_id", u.Usage.RequestID, "error", err)
}

// openListeners loads the TLS certificate if one is configured, and opens the listeners of the API and, unless
// metrics are off, of the metrics. After an error those opened remain, for Close.
func (s *Service) openListeners(ctx context.Context) (err error) {
	if s.config.TLS.Cert != "" {
		if s.api.TLSConfig, err = s.config.TLS.tlsConfig(); err != nil {
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

// listenOn opens a TCP listener on address, host:port. If that fails, the error says how to correct it with
// flag, the command's flag for the address.
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

// URL returns the URL of the API at the address of its listener: https with a certificate, else http. Open must
// have succeeded.
func (s *Service) URL() string {
	scheme := "http://"
	if s.config.TLS.Cert != "" {
		scheme = "https://"
	}
	return scheme + s.apiListener.Addr().String()
}

// MetricsURL returns the URL of the metrics, or "" without metrics.
func (s *Service) MetricsURL() string {
	if s.opsListen == nil {
		return ""
	}
	return "http://" + s.opsListen.Addr().String()
}

// isReady reports whether this process can serve requests, for /ready; it is false once the end has begun.
// During an outage of DynamoDB it is true if recommendations come from memory or usage goes to the spool.
func (s *Service) isReady() bool {
	health, policies := s.keeper.Health(), s.config.OnUnavailable
	serves := budget.Policy(policies.Recommend) != budget.Refuse || s.config.Spool != "" && budget.Policy(policies.Submit) != budget.Refuse
	return !s.ending.Load() && (health.Ready || health.Open && serves)
}

// Serve serves until ctx ends or a listener fails, and sweeps and refreshes prices meanwhile, if configured.
// Then it refuses new requests, waits for pending ones and writes, at most Shutdown.Time each, and closes
// everything. It returns nil after an orderly end.
func (s *Service) Serve(ctx context.Context) error {
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var work sync.WaitGroup
	if !s.config.Aggregation.Off {
		work.Go(func() { s.sweepIfLeader(beside) })
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
		s.drainRequests()
	}
	s.ending.Store(true)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(s.config.Shutdown.Time))
	defer cancel()
	err := s.shutdownAPI(closing)
	stop()
	work.Wait()
	err = errors.Join(err, s.closeParts(closing))
	_ = s.operating.Close() // metrics are available to the last
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

// serveAPI serves the API, with TLS if it is configured, until the server is closed or its listener fails. It
// always returns an error: http.ErrServerClosed after a close.
func (s *Service) serveAPI() error {
	if s.api.TLSConfig != nil {
		return s.api.ServeTLS(s.apiListener, "", "")
	}
	return s.api.Serve(s.apiListener)
}

// drainRequests makes /ready answer 503 from now on, and then waits for Shutdown.Delay, in which requests are
// still served, until load balancers have noticed.
func (s *Service) drainRequests() {
	s.ending.Store(true)
	if s.config.Shutdown.Delay > 0 {
		<-time.After(time.Duration(s.config.Shutdown.Delay))
	}
}

// shutdownAPI refuses new requests and waits for pending ones. It returns nil when they end. If ctx ends first,
// it cuts them off and returns an error.
func (s *Service) shutdownAPI(ctx context.Context) error {
	if err := s.api.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("requests were cut off after %v: give them longer with --shutdown-time", time.Duration(s.config.Shutdown.Time)), s.api.Close())
	}
	return nil
}

// closeParts closes the keeper and the limiter, skipping those not made, and waits for their pending writes. It
// takes at most Shutdown.Time from now, even if ctx has ended. It returns the errors of both.
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

// Close ends a service that Serve does not serve: it closes listeners, keeper and limiter, and waits up to
// Shutdown.Time for pending writes. It returns the errors of the last two.
func (s *Service) Close(ctx context.Context) error {
	if s.apiListener != nil {
		_ = s.apiListener.Close() // no request was answered yet
	}
	if s.opsListen != nil {
		_ = s.opsListen.Close()
	}
	return s.closeParts(ctx)
}

// CreateTables creates the keeper's control and usage tables and the limiter's table, as far as they are
// missing, and returns the first error.
func (s *Service) CreateTables(ctx context.Context) error {
	if err := s.keeper.Setup().CreateTables(ctx); err != nil {
		return err
	}
	return s.parts.Repository.CreateTable(ctx)
}

// Look reads from the control, usage and limits tables once each, and returns the first error, for wrong names
// and missing permissions. It changes nothing and returns no contents.
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

// nothing is the key of no item.
var nothing = map[string]types.AttributeValue{
	"PK": &types.AttributeValueMemberS{Value: "NOTHING"}, "SK": &types.AttributeValueMemberS{Value: "#"},
}

// decoy is a bcrypt hash without an owner, with the cost that most systems use. It makes failed
// logins take equally long with and without an imported hash.
const decoy = "$2a$12$D58QqvvhlEqXbdO6x5wtkecUHsMeZtyRZtA71YJ./ekLS.yvSnj4q"
