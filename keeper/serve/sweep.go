package keeper

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/pricefeed"
)

// SweepLease is the name of the lease of the process that sweeps.
const SweepLease = "keeper-sweep"

// sweepIfLeader sweeps while this process holds the lease of sweeping processes, and else tries every
// Aggregation.Every to get it, until ctx ends. It logs errors, except that another process has the lease, and
// sets the metric.
func (s *Service) sweepIfLeader(ctx context.Context) {
	for {
		err := admin.New(s.parts.Repository).Alone(ctx, SweepLease, nil, s.sweepPeriodically)
		s.metrics.setLeading(false)
		if ctx.Err() == nil && err != nil && !errors.Is(err, fault.ErrLocked) {
			s.parts.Logger.ErrorContext(ctx, "keeper: sweep", "error", err)
		}
		if !waitFor(ctx, time.Duration(s.config.Aggregation.Every)) {
			return
		}
	}
}

// sweepPeriodically calls the keeper's Sweep every Aggregation.Every until ctx ends, also after errors, and
// counts and logs the results. It returns the cause of ctx's end. The caller must hold the lease.
func (s *Service) sweepPeriodically(ctx context.Context) error {
	s.metrics.setLeading(true)
	for {
		report, err := s.keeper.Sweep(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.metrics.onSweep(err)
		if err != nil {
			s.parts.Logger.ErrorContext(ctx, "keeper: sweep", "error", err)
		}
		if report.Events > 0 {
			s.parts.Logger.InfoContext(ctx, "keeper: swept", "orgs", report.Orgs, "events", report.Events)
		}
		if !waitFor(ctx, time.Duration(s.config.Aggregation.Every)) {
			return context.Cause(ctx)
		}
	}
}

// waitFor waits for d and returns true. It returns false at once if ctx ends first.
func waitFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// refreshPrices imports prices from Parts.Prices periodically until ctx ends, and counts and logs the results.
// If the refresher cannot be made, it logs that and returns at once.
func (s *Service) refreshPrices(ctx context.Context) {
	r, err := pricefeed.New(s.keeper.Prices(), s.parts.Prices, &pricefeed.Options{
		Providers: s.config.Prices.Refresh.Providers, Every: time.Duration(s.config.Prices.Refresh.Every), Logger: s.parts.Logger,
		OnReport: func(_ context.Context, report budget.PriceReport, err error) { s.metrics.onRefresh(report, err) },
	})
	if err == nil {
		err = r.Run(ctx)
	}
	if ctx.Err() == nil {
		s.parts.Logger.ErrorContext(ctx, "keeper: prices are not refreshed", "error", err)
	}
}
