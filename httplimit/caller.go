package httplimit

import (
	"net/http"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Caller is the caller of a request. Take all of it from verified data, such as the claims of a signed
// token, and never from a raw header: a caller that chooses its parent chooses the charged limits.
type Caller struct {
	// Key is the id of an entity. An invalid or empty id is a stranger.
	Key string
	// Parent is the id of the entity's parent where the entity's record does not say it
	// (dynalimit.WithParent); empty for none. A parent without a record is answered with 403.
	Parent string
	// Plan is the name of the entity's plan where the entity's record does not say it
	// (dynalimit.WithPlan); empty for none.
	Plan string
}

// identifyCaller returns the caller to charge: the result of Options.Identify or Key. Without both, and for a
// key that is invalid or refused by Options.Known, it is Options.Strangers, without parent and plan.
func (m *middleware) identifyCaller(r *http.Request) Caller {
	var c Caller
	switch {
	case m.Identify != nil:
		c = m.Identify(r)
	case m.Key != nil:
		c.Key = m.Key(r)
	}
	if schema.EntityRule.Check(c.Key) == "" && m.Known(c.Key) {
		return c
	}
	return Caller{Key: m.Strangers}
}
