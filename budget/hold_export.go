package budget

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
)

// exportVersion begins the text of an exported hold.
const exportVersion = "hold1."

// maxExport bounds the text of an exported hold.
const maxExport = 4096

// exportedHold is a hold as text: enough to find it. What it holds is read from the table.
type exportedHold struct {
	ID       string `json:"id"`
	Org      string `json:"org"`
	App      string `json:"app"`
	Label    string `json:"label"`
	Model    string `json:"model,omitempty"`
	Day      string `json:"day,omitempty"`
	Estimate int64  `json:"micros"`
	Reserved int64  `json:"reserved_ms"`
	Soft     bool   `json:"soft,omitempty"`
	Degraded bool   `json:"degraded,omitempty"`
	Named    bool   `json:"named,omitempty"`
	OrgScope bool   `json:"org_scope,omitempty"`     // it counts to the whole organisation
	ExpireMs int64  `json:"expires_at_ms,omitempty"` // 0: nothing is held
}

// Export is the hold as text, by which another process finds it with ResumeHold, for
// example one that ends what this one began. The text has no secret and holds no money: it
// names the hold. Whoever has it can settle or release that, so take it only from where you
// gave it.
func (h *Hold) Export() string {
	if h == nil {
		return ""
	}
	e := exportedHold{
		ID: h.ID, Org: h.Org, App: h.App, Label: h.Label, Model: h.Model, Day: h.Day, Estimate: h.EstimateMicros,
		Reserved: h.since.UnixMilli(), Soft: h.Soft, Degraded: h.Degraded, Named: h.named,
	}
	if ref := h.ref.Load(); ref != nil {
		e.ExpireMs, e.OrgScope = ref.ExpireMs, ref.Scope == ledger.ScopeKey(ScopeOrg, h.Org, h.App)
	}
	b, _ := json.Marshal(e) // cannot fail
	return exportVersion + base64.RawURLEncoding.EncodeToString(b)
}

// ResumeHold is the hold that Export wrote, in this process or another: to settle, release
// or extend it. A hold that has ended meanwhile is returned, too: Settle counts in full
// then, Release does nothing, and Extend fails with ErrNotFound. Use it in one process at a
// time: one that was extended elsewhere later is not found by a Settle here, and stays held
// until its lease ends.
//
// Errors: *ValidationError for a text that is not Export's, ErrNotFound for a hold of
// ReserveAs that GetHold finds no more, *UnavailableError.
func (k *Keeper) ResumeHold(ctx context.Context, text string) (*Hold, error) {
	if err := k.usable(ctx); err != nil {
		return nil, err
	}
	e, err := parseHold(text)
	if err != nil {
		return nil, err
	}
	return k.charges.resumeHold(ctx, e)
}

func parseHold(text string) (e exportedHold, err error) {
	bad := invalid("hold", "is not the text of an exported hold, or of a later version; give what Hold.Export returned")
	encoded, ok := strings.CutPrefix(text, exportVersion)
	if !ok || len(text) > maxExport {
		return e, bad
	}
	b, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(b, &e) != nil || e.validate() != nil {
		return e, bad
	}
	return e, nil
}

func (e exportedHold) validate() error {
	if err := validTarget(e.Org, e.App); err != nil {
		return err
	}
	if err := validUUID("hold", e.ID); err != nil {
		return err
	}
	if err := validName("hold", e.Label); err != nil {
		return err
	}
	if _, err := calendar.ParseDay(e.Day); err != nil && !e.Degraded {
		return err
	}
	if e.Estimate < 0 || e.Estimate > maxQuota || e.ExpireMs < 0 || e.Reserved <= 0 || len(e.Model) > maxName {
		return invalid("hold", "is out of bounds")
	}
	return nil
}

func (c *charges) resumeHold(ctx context.Context, e exportedHold) (*Hold, error) {
	if e.Named && !e.Degraded {
		return c.getHold(ctx, e.Org, e.App, e.ID)
	}
	h := &Hold{
		ID: e.ID, Org: e.Org, App: e.App, Label: e.Label, Model: e.Model, Day: e.Day, EstimateMicros: e.Estimate,
		Soft: e.Soft, Degraded: e.Degraded, charges: c, named: e.Named, since: time.UnixMilli(e.Reserved),
	}
	if e.ExpireMs == 0 {
		return h, nil
	}
	scope := ScopeApp
	if e.OrgScope {
		scope = ScopeOrg
	}
	ref, err := c.ledger.Find(ctx, ledger.ScopeKey(scope, e.Org, e.App), e.ExpireMs, e.ID)
	if err != nil {
		return nil, failure("ResumeHold", err)
	}
	h.ref.Store(ref)
	return h, nil
}
