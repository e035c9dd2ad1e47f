package budget

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// The attributes of what older versions enforced: money that was held before a call, quotas
// of weeks and months, changes of time zone and scope. This version does none of it, and
// refuses a configuration that asks for it rather than let it pass for another.
const (
	attrEnforcement = "enforcement"
	attrLimits      = "limits"
	attrCalendar    = "calendar"
)

// enforced says what of a stored configuration this version does not do; "" if nothing.
func enforced(item store.Item) string {
	if s, ok := item[attrEnforcement].(*types.AttributeValueMemberS); ok && s.Value == "HARD" {
		return "it is stored with enforcement HARD"
	}
	if l, ok := item[attrLimits].(*types.AttributeValueMemberL); ok && len(l.Value) > 0 {
		return "it has quotas for all labels, weeks or months"
	}
	if l, ok := item[attrCalendar].(*types.AttributeValueMemberL); ok && len(l.Value) > 1 {
		return "its time zone, scope or enforcement was changed"
	}
	return ""
}

// enforcedError refuses such a configuration. It is a *fault.ValidationError, so that records of
// the spool wait.
type enforcedError struct {
	what, reason string
	deleted      bool
}

// Error implements error.
func (e *enforcedError) Error() string { return e.Unwrap().Error() }

// Unwrap is the *fault.ValidationError.
func (e *enforcedError) Unwrap() error {
	advice, fix := "put another after you delete it", fault.DeleteOrg
	if e.deleted {
		advice, fix = "it was deleted; put another", fault.PutOrg
	}
	wrong := invalidConfig(attrEnforcement, "%s cannot be served by this version, which steers and does not enforce: %s; %s", e.what, e.reason, advice)
	wrong.Fix = fix
	return wrong
}

// appEnforced refuses an app's configuration of that kind; PutApp replaces it.
func appEnforced(app, reason string) error {
	return invalidConfig(attrLimits, "%s", fmt.Sprintf("app %q cannot be served by this version: %s; put it again without them", app, reason))
}

// isEnforced reports whether a configuration is of that kind: it can be deleted.
func isEnforced(err error) bool { return errors.As(err, new(*enforcedError)) }
