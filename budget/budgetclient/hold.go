package budgetclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dynalimit/dynalimit/budget"
)

const (
	minLease = time.Second
	maxLease = 24 * time.Hour
)

// heldAnswer is a hold as the API has it.
type heldAnswer struct {
	ID       string    `json:"hold_id"`
	Label    string    `json:"model_label"`
	Model    string    `json:"model_id"`
	Day      string    `json:"day"`
	Estimate int64     `json:"estimate_usd_micros"`
	Holds    string    `json:"holds"`
	Degraded bool      `json:"degraded"`
	Expires  time.Time `json:"expires_at"`
}

// nothing reports that no money is held.
func (h heldAnswer) nothing() bool { return h.Holds == "nothing" }

// Reserve holds micros µ$ of a label's quotas for one call, for at most lease, as
// budget.Keeper.Reserve does. Whole seconds of lease are asked for, rounded up. The hold's
// id is chosen before the first try, so that a try whose answer is lost holds nothing twice.
// If none of the tries is answered, and one of them was carried out, that hold ends with its
// lease.
//
// Errors: *budget.QuotaExceededError, *budget.ValidationError, budget.ErrNotFound,
// *budget.UnavailableError, *StatusError.
func (c *Client) Reserve(ctx context.Context, org, app, label string, micros int64, lease time.Duration) (*budget.Hold, error) {
	return c.ReserveAs(ctx, org, app, newID(), label, micros, lease)
}

// ReserveAs is Reserve under an id of the caller's, a canonical lower-case UUID, as
// budget.Keeper.ReserveAs: sent again it returns the same hold. budget.ErrConflict: the id
// was used for something else, or its hold has ended.
func (c *Client) ReserveAs(ctx context.Context, org, app, id, label string, micros int64, lease time.Duration) (*budget.Hold, error) {
	path, err := c.admitted(ctx, org, app)
	if err != nil {
		return nil, err
	}
	if err := validHold(id, label, micros, lease); err != nil {
		return nil, err
	}
	reserved := c.opts.Now()
	h, err := c.reserve(ctx, path, id, label, micros, lease)
	switch {
	case err == nil:
		r := budget.RemoteHold{
			ID: id, Org: org, App: app, Label: label, Model: h.Model, Day: h.Day, EstimateMicros: micros,
			Soft: h.nothing() && !h.Degraded, Degraded: h.Degraded, ExpiresAt: ends(h.Expires, reserved, lease), Reserved: reserved,
		}
		if h.nothing() {
			r.ExpiresAt = time.Time{}
		}
		return r.Hold(holds{c.core, path}), nil
	case errors.Is(err, budget.ErrQuotaExceeded):
		c.choices.of(path).outdate()
	case errors.Is(err, budget.ErrUnavailable) && c.opts.OnUnavailable.Reserve == budget.Allow && !errors.Is(ctx.Err(), context.Canceled):
		c.opts.Logger.WarnContext(ctx, "budgetclient: reserved nothing", "error", err)
		return budget.RemoteHold{
			ID: id, Org: org, App: app, Label: label, Model: c.knownModel(path, label), EstimateMicros: micros, Degraded: true, Reserved: reserved,
		}.Hold(holds{c.core, path}), nil
	}
	return nil, err
}

func validHold(id, label string, micros int64, lease time.Duration) error {
	const most = 1_000_000_000_000 // µ$
	switch {
	case !uuid.MatchString(id):
		return invalid("hold_id", "%q is not a canonical lower-case UUID", clipped(id))
	case micros < 0 || micros > most:
		return invalid("micros", "%d µ$ is not within 0 to %d", micros, int64(most))
	case lease < minLease || lease > maxLease:
		return invalid("lease", "%v is not within 1 s to 24 h", lease)
	}
	return validName("model_label", label)
}

func (c *core) reserve(ctx context.Context, path, id, label string, micros int64, lease time.Duration) (h heldAnswer, err error) {
	_, err = c.do(ctx, &call{
		op: "Reserve", method: http.MethodPost, path: path + "/holds", writes: true, into: &h,
		body: map[string]any{"hold_id": id, "model_label": label, "estimate_usd_micros": micros, "lease_secs": seconds(lease)},
		check: func() error {
			if h.ID != id || h.Label != label || !h.nothing() && h.Expires.IsZero() {
				return errors.New("it is of no hold, or another")
			}
			return nil
		},
	})
	return h, err
}

// seconds are whole ones, not too few.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// knownModel is a label's model by the last recommendation; empty if there is none.
func (c *core) knownModel(path, label string) string {
	rec, _ := c.choices.of(path).stale()
	for _, l := range rec.Labels {
		if l.Label == label {
			return l.Model
		}
	}
	return ""
}

// holds ends and extends the holds of one app.
type holds struct {
	*core
	path string
}

// SettleHold settles over the API; a record of a hold that was never made is submitted.
func (h holds) SettleHold(ctx context.Context, held *budget.Hold, usage budget.Usage) (budget.Receipt, error) {
	ctx, cancel := h.lasting(ctx)
	defer cancel()
	if held.Degraded {
		return h.record(ctx, "Settle", h.path, h.path+"/usage", usage)
	}
	return h.record(ctx, "Settle", h.path, h.path+"/holds/"+held.ID+"/settle", usage)
}

// ReleaseHold releases over the API.
func (h holds) ReleaseHold(ctx context.Context, held *budget.Hold) error {
	ctx, cancel := h.lasting(ctx)
	defer cancel()
	_, err := h.do(ctx, &call{op: "Release", method: http.MethodPost, path: h.path + "/holds/" + held.ID + "/release", writes: true})
	return err
}

// ExtendHold extends over the API.
func (h holds) ExtendHold(ctx context.Context, held *budget.Hold, d time.Duration) (time.Time, error) {
	var answer heldAnswer
	asked := h.opts.Now()
	_, err := h.do(ctx, &call{
		op: "Extend", method: http.MethodPost, path: h.path + "/holds/" + held.ID + "/extend", writes: true, into: &answer,
		body: map[string]any{"lease_secs": seconds(d)},
		check: func() error {
			if answer.ID != held.ID {
				return errors.New("it is of no hold, or another")
			}
			return nil
		},
	})
	return ends(answer.Expires, asked, d), err
}

// ends is when a lease ends that was asked for so long: as the keeper says, or sooner by the
// clock here, which may be behind and is what whoever extends the hold in time goes by. The
// zero time, of a hold of nothing, stays.
func ends(expires, asked time.Time, lease time.Duration) time.Time {
	if here := asked.Add(time.Duration(seconds(lease)) * time.Second); here.Before(expires) {
		return here
	}
	return expires
}

// lasting is ctx without its cancellation, for what ends a call: it lasts until ctx's
// deadline, and at least one try.
func (c *core) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	rest := time.Duration(c.opts.Retries+1) * (c.opts.Timeout + backoff.Most)
	if end, ok := ctx.Deadline(); ok {
		rest = max(min(rest, time.Until(end)), c.opts.Timeout)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), rest)
}

// newID is a random UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
