package budget

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/money"
)

// ReserveAs is Reserve under an id that the caller chose, a canonical lower-case UUID of
// this app's: sent again with the same label and amount it returns the same hold, from any
// process, also after an answer that was lost. ErrConflict: the id was used with another
// label or amount, or its hold has ended, by Settle, by Release or with its lease.
//
// A reservation that gets no answer is not given back in the background, as Reserve's is:
// send it again, or let it end with its lease. Under soft enforcement nothing is held, but
// the id is kept, too.
func (k *Keeper) ReserveAs(ctx context.Context, org, app, id, label string, micros int64, lease time.Duration) (*Hold, error) {
	if err := k.usable(ctx); err != nil {
		return nil, err
	}
	if err := validUUID("hold_id", id); err != nil {
		return nil, err
	}
	return k.charges.reserve(ctx, &Hold{ID: id, Org: org, App: app, Label: label, EstimateMicros: micros, named: true}, lease)
}

// GetHold finds the hold that ReserveAs made under an id, from any process. Its Settle
// counts in full when the lease has ended; its Release does nothing then. ErrNotFound:
// there was no such reservation, or it is longer ago than the longest period of its quotas
// and 49 hours.
func (k *Keeper) GetHold(ctx context.Context, org, app, id string) (*Hold, error) {
	if err := k.usable(ctx); err != nil {
		return nil, err
	}
	if err := validTarget(org, app); err != nil {
		return nil, err
	}
	if err := validUUID("hold_id", id); err != nil {
		return nil, err
	}
	return k.charges.getHold(ctx, org, app, id)
}

func (c *charges) getHold(ctx context.Context, org, app, id string) (*Hold, error) {
	n, err := c.ledger.ReadName(ctx, ledger.NameKey(org, app, id))
	if err != nil {
		return nil, failure("GetHold", err)
	}
	if n == nil || c.now().Unix() >= n.TTL { // DynamoDB removes it when it has time
		return nil, notFound("hold %s of app %q", id, app)
	}
	return c.namedHold(org, app, id, n), nil
}

// namedHold is the hold that was made under an id.
func (c *charges) namedHold(org, app, id string, n *ledger.Name) *Hold {
	h := &Hold{
		ID: id, Org: org, App: app, Label: n.Label, Model: n.Model, Day: n.Day, EstimateMicros: n.Estimate.Micros(),
		Soft: n.Hold == nil, charges: c, named: true, since: time.UnixMilli(n.Reserved), kept: n.TTL,
	}
	h.ref.Store(n.Hold)
	return h
}

// name is what is kept of the hold under its id.
func (h *Hold) name() *ledger.Name {
	return &ledger.Name{
		Key: ledger.NameKey(h.Org, h.App, h.ID), Label: h.Label, Model: h.Model, Day: h.Day,
		Estimate: money.FromMicros(h.EstimateMicros), Reserved: h.since.UnixMilli(),
	}
}

// sentBefore says that a reservation's id was used before.
type sentBefore struct{ name *ledger.Name }

func (*sentBefore) Error() string { return "the id of the hold was used before" }

// nameSoft keeps the id of a hold that holds nothing.
func (c *charges) nameSoft(ctx context.Context, h *Hold, expires time.Time, ttl int64) error {
	if !h.named {
		return nil
	}
	n := h.name()
	h.kept = ttl
	n.ExpireMs, n.TTL = expires.UnixMilli(), ttl
	before, err := c.ledger.PutName(ctx, n)
	if err == nil && before != nil {
		return &sentBefore{before}
	}
	return failure("Reserve", err)
}

// reserveOnce makes a reservation, or finds the one that was made under its id: also where
// it would be refused now.
func (c *charges) reserveOnce(ctx context.Context, h *Hold, lease time.Duration) (*Hold, error) {
	held, err := c.reserveOrCheck(ctx, h, lease)
	if err == nil || !h.named || unavailable(err) || errors.Is(err, ErrNotFound) { // of a tenant that is none
		return held, err
	}
	var before *sentBefore
	if !errors.As(err, &before) {
		n, readErr := c.ledger.ReadName(ctx, ledger.NameKey(h.Org, h.App, h.ID))
		switch {
		case readErr != nil:
			return nil, failure("Reserve", readErr)
		case n == nil:
			return nil, err
		}
		before = &sentBefore{n}
	}
	return c.sameHold(ctx, h, before.name)
}

// sameHold is the hold that was made under the id of a reservation, if that asks for the
// same.
func (c *charges) sameHold(ctx context.Context, h *Hold, n *ledger.Name) (*Hold, error) {
	if n.Label != h.Label || n.Estimate != money.FromMicros(h.EstimateMicros) {
		return nil, fmt.Errorf("%w: the hold id %s was used for %d µ$ under label %q", ErrConflict, h.ID, n.Estimate.Micros(), n.Label)
	}
	if n.Hold == nil {
		return c.namedHold(h.Org, h.App, h.ID, n), nil
	}
	found, err := c.ledger.Find(ctx, n.Hold.Scope, n.Hold.ExpireMs, n.Hold.ID)
	if err != nil {
		return nil, failure("Reserve", err)
	}
	if found == nil || !time.UnixMilli(found.ExpireMs).After(c.now()) {
		return nil, fmt.Errorf("%w: the hold under the id %s has ended: it was settled or released, or its lease is over", ErrConflict, h.ID)
	}
	found.Name, n.Hold = n.Key, found
	return c.namedHold(h.Org, h.App, h.ID, n), nil
}
