package budget

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
)

// HoldKeeper ends and extends holds that are kept elsewhere, such as behind a REST API:
// what RemoteHold needs. Each method does what Hold's of that name does. One of them at a
// time is called for a hold, and with a record that Usage.Validate has found good.
type HoldKeeper interface {
	// SettleHold counts what the call cost, and gives the hold back. Sent again with the
	// same record it is a Duplicate.
	SettleHold(ctx context.Context, h *Hold, usage Usage) (Receipt, error)
	// ReleaseHold gives the hold back. It does nothing for one that has ended.
	ReleaseHold(ctx context.Context, h *Hold) error
	// ExtendHold moves the end of the lease to d from now, and returns it. ErrNotFound:
	// the lease had ended.
	ExtendHold(ctx context.Context, h *Hold, d time.Duration) (expires time.Time, err error)
}

// RemoteHold is what a process knows of a hold that another one keeps. Hold makes a *Hold
// of it, for what takes those of a Keeper: package budgetclient does so for package llm.
type RemoteHold struct {
	ID             string    // its id, a canonical lower-case UUID
	Org, App       string    // whose budget it is
	Label          string    // the label it was reserved under
	Model          string    // the label's model id; empty when it is not known
	Day            string    // the call is counted on; empty when it is not known
	EstimateMicros int64     // what was asked for, in µ$
	Soft           bool      // nothing is held: enforcement is soft
	Degraded       bool      // nothing is held: the keeper did not answer
	ExpiresAt      time.Time // when the lease ends; the zero time if nothing is held
	Reserved       time.Time // when it was made; for Hold.Export
}

// Hold is the hold, ended and extended by keeper. It makes no request. A nil keeper makes
// a hold whose methods fail with a *ValidationError.
func (r RemoteHold) Hold(keeper HoldKeeper) *Hold {
	h := &Hold{
		ID: r.ID, Org: r.Org, App: r.App, Label: r.Label, Model: r.Model, Day: r.Day, EstimateMicros: r.EstimateMicros,
		Soft: r.Soft, Degraded: r.Degraded, remote: keeper, named: true, since: r.Reserved,
	}
	if !r.ExpiresAt.IsZero() {
		h.ref.Store(&ledger.Hold{ExpireMs: r.ExpiresAt.UnixMilli()})
	}
	return h
}

// settleRemote is Settle of a hold that is kept elsewhere. It needs the lock.
func (h *Hold) settleRemote(ctx context.Context, usage Usage) (Receipt, error) {
	receipt, err := h.remote.SettleHold(ctx, h, usage)
	if err == nil {
		h.ended = true
	}
	return receipt, err
}

// releaseRemote is Release of a hold that is kept elsewhere. It needs the lock.
func (h *Hold) releaseRemote(ctx context.Context) error {
	err := h.remote.ReleaseHold(ctx, h)
	if err == nil {
		h.ended = true
	}
	return err
}

// extendRemote is Extend of a hold that is kept elsewhere. It needs the lock.
func (h *Hold) extendRemote(ctx context.Context, d time.Duration) error {
	expires, err := h.remote.ExtendHold(ctx, h, d)
	if err == nil && !expires.IsZero() {
		h.ref.Store(&ledger.Hold{ExpireMs: expires.UnixMilli()})
	}
	return err
}
