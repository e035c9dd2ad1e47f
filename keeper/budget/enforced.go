package budget

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Attributes that only older versions enforced: money held before a call, quotas of weeks and
// months, and changes of time zone and scope. This version supports none of them. It refuses a
// configuration that has them.
const (
	attrEnforcement = "enforcement"
	attrLimits      = "limits"
	attrCalendar    = "calendar"
)

// unsupportedPart returns a text for users about the first part of a stored configuration that this version
// cannot enforce. It returns "" if it supports all parts.
func unsupportedPart(item store.Item) string {
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

// enforcedError refuses such a configuration. It is a *fault.ValidationError, so records in the
// spool wait.
type enforcedError struct {
	what, reason string
	deleted      bool
}

// Error returns the text of the *fault.ValidationError of Unwrap.
func (e *enforcedError) Error() string { return e.Unwrap().Error() }

// Unwrap returns a new *fault.ValidationError that says which part cannot be enforced, and how to correct that.
func (e *enforcedError) Unwrap() error {
	advice, fix := "put another after you delete it", fault.DeleteOrg
	if e.deleted {
		advice, fix = "it was deleted; put another", fault.PutOrg
	}
	wrong := invalidConfig(attrEnforcement, "%s cannot be served by this version, which steers and does not enforce: %s; %s", e.what, e.reason, advice)
	wrong.Fix = fix
	return wrong
}

// appEnforcedError returns the error for an app with a stored configuration that this version does not enforce.
// PutApp replaces the configuration.
func appEnforcedError(app, reason string) error {
	return invalidConfig(attrLimits, "%s", fmt.Sprintf("app %q cannot be served by this version: %s; put it again without them", app, reason))
}

// isEnforcedError reports whether err refuses an organisation because this version does not enforce its stored
// configuration. Such an organisation can still be deleted.
func isEnforcedError(err error) bool { return errors.As(err, new(*enforcedError)) }
