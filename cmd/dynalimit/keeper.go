package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/keeper/serve"
)

type keeperCmd struct {
	Serve keeperServeCmd `cmd:"" help:"Serve budgets over HTTP: the REST API, with tokens, TLS and metrics."`
}

// keeperServeCmd serves the REST API. A setting comes from its flag, else from the environment,
// else from the file.
type keeperServeCmd struct {
	Config          string         `help:"YAML file with the settings that no flag gives." env:"DYNALIMIT_KEEPER_CONFIG" placeholder:"FILE"`
	Listen          *string        `help:"Address of the API. Default: 127.0.0.1:8080." env:"DYNALIMIT_KEEPER_LISTEN" placeholder:"ADDRESS"`
	Metrics         *string        `help:"Address of /metrics, /live and /ready, or off. Default: 127.0.0.1:9090." env:"DYNALIMIT_KEEPER_METRICS" placeholder:"ADDRESS"`
	TLSCert         *string        `name:"tls-cert" help:"File of the certificate." env:"DYNALIMIT_KEEPER_TLS_CERT" placeholder:"FILE"`
	TLSKey          *string        `name:"tls-key" help:"File of the certificate's key." env:"DYNALIMIT_KEEPER_TLS_KEY" placeholder:"FILE"`
	BehindProxy     saidList       `help:"Networks of the proxies in front, which speak TLS with the clients and are believed about their addresses." env:"DYNALIMIT_KEEPER_BEHIND_PROXY" placeholder:"CIDR,…"`
	ForwardedHeader *string        `help:"The header in which they put those: X-Forwarded-For or Forwarded. Default: X-Forwarded-For." env:"DYNALIMIT_KEEPER_FORWARDED_HEADER" placeholder:"NAME"`
	CORSOrigin      saidList       `name:"cors-origin" help:"Origins of pages that may send requests from a browser. Default: none." env:"DYNALIMIT_KEEPER_CORS_ORIGIN" placeholder:"ORIGIN,…"`
	ShutdownDelay   *time.Duration `help:"How long requests are taken after /ready says no. Default: none." env:"DYNALIMIT_KEEPER_SHUTDOWN_DELAY" placeholder:"TIME"`
	ShutdownTime    *time.Duration `help:"How long requests in flight may take to end. Default: 20s." env:"DYNALIMIT_KEEPER_SHUTDOWN_TIME" placeholder:"TIME"`
	Control         string         `help:"Table of configuration, prices and credentials." default:"control" env:"DYNALIMIT_KEEPER_CONTROL"`
	Usage           string         `help:"Table of counters and records." default:"usage" env:"DYNALIMIT_KEEPER_USAGE"`
	CreateTables    bool           `help:"Create tables that are missing."`
	Spool           *string        `help:"File of this process alone that keeps usage while DynamoDB does not take it. Default: none, then such usage is refused." env:"DYNALIMIT_KEEPER_SPOOL" placeholder:"FILE"`
	Linger          *time.Duration `help:"How long usage waits for more to share its transaction, where such queues up: longer costs less, and answers later. Default: 2ms." env:"DYNALIMIT_KEEPER_LINGER" placeholder:"TIME"`
	Keyset          *string        `help:"File with the keys of the keeper, or secretsmanager:NAME for a secret of AWS Secrets Manager. Default: the content of DYNALIMIT_KEYSET in the environment." placeholder:"FILE"`
}

// keeperLocalHelp is the help of --local for this command.
const keeperLocalHelp = "Keep the tables in memory of this process, not of 'dynalimit local', with an organisation to try; nothing else is needed."

// mergeConfig returns the settings from the flags, the environment, the file and the defaults, in this order of
// precedence. An empty value such as 0s counts as given. It refuses invalid settings and an unreadable file.
func (c keeperServeCmd) mergeConfig() (keeper.Config, error) {
	config := keeper.Default()
	if c.Config != "" {
		text, err := os.ReadFile(c.Config)
		if err != nil {
			return config, badInput("%s cannot be read: %w; name the keeper's file with --config", term.Plain(c.Config), withoutPath(err))
		}
		if config, err = keeper.Parse(term.Plain(c.Config), text); err != nil {
			return config, badInput("%w; correct the file and try again", err)
		}
	}
	if os.Getenv(keysetVariable) != "" { // the keys themselves precede a file of keys
		config.Keyset = ""
	}
	overrideValue(&config.Listen, c.Listen)
	overrideValue(&config.Metrics, c.Metrics)
	overrideValue(&config.TLS.Cert, c.TLSCert)
	overrideValue(&config.TLS.Key, c.TLSKey)
	overrideValue(&config.ForwardedHeader, c.ForwardedHeader)
	overrideValue(&config.Shutdown.Delay, (*keeper.Span)(c.ShutdownDelay))
	overrideValue(&config.Shutdown.Time, (*keeper.Span)(c.ShutdownTime))
	overrideValue(&config.Keyset, c.Keyset)
	overrideValue(&config.Spool, c.Spool)
	if c.Linger != nil {
		config.Linger = (*keeper.Span)(c.Linger)
	}
	overrideValue(&config.BehindProxy, (*[]string)(c.BehindProxy.asPointer()))
	overrideValue(&config.CORSOrigins, (*[]string)(c.CORSOrigin.asPointer()))
	if err := config.Check(); err != nil {
		return config, badInput("%w", err)
	}
	return config, nil
}

// overrideValue sets *config to *flag, unless flag is nil.
func overrideValue[T any](config, flag *T) {
	if flag != nil {
		*config = *flag
	}
}

// saidList is the values of a flag that may be given empty. nil means that the flag is not
// given.
type saidList []string

// Decode implements kong.MapperValue. It appends the values of a comma-separated flag to *l. An empty flag
// makes *l empty but not nil, which means given.
func (l *saidList) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("list", &text); err != nil {
		return err
	}
	if *l == nil {
		*l = saidList{}
	}
	*l = append(*l, kong.SplitEscaped(text, ',')...)
	return nil
}

// asPointer returns nil if the flag is not given, else a pointer to its values, which may be empty.
func (l saidList) asPointer() *saidList {
	if l == nil {
		return nil
	}
	return &l
}

// Run serves the keeper's API until ctx ends, then shuts it down. It creates or checks the tables first, and
// prints the addresses after that. Logs go to out.Notes as JSON.
func (c keeperServeCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	config, err := c.mergeConfig()
	if err != nil {
		return err
	}
	log := keeper.NewLog(out.Notes)
	out.Notes = log // one output, which never blocks
	defer log.Close(logPatience)
	parts, closing, err := c.openParts(ctx, g, config, slog.New(slog.NewJSONHandler(log, nil)))
	if err != nil {
		return err
	}
	parts.Log = log
	defer closing()
	s, err := keeper.Open(ctx, config, parts)
	if err != nil {
		return err
	}
	over := out.Watch(g.connectOptions(ctx).Where())
	banner, err := c.createTables(ctx, g, s)
	over()
	if err != nil {
		return c.explainStart(ctx, g, err, s.Close(ctx))
	}
	banner(out)
	signal.Ignore(syscall.SIGPIPE) // from here on a closed log must not end the process
	if err := s.Serve(ctx); err != nil {
		return &failure{exitFailed, err}
	}
	return nil
}

// logPatience is how long the end waits for the log's reader.
const logPatience = time.Second
