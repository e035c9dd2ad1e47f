package main

import (
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// commandOf maps the calls that the library's errors advise to commands.
var commandOf = map[fault.Fix]fault.Fix{
	fault.CreateTable:       "'dynalimit table create'",
	fault.RegisterNamespace: "'dynalimit namespace register'",
	fault.CreateEntity:      "'dynalimit entity create'",
	fault.GetEntity:         "'dynalimit entity show'",
	fault.UpdateEntity:      "'dynalimit entity update'",
	fault.DeleteEntity:      "'dynalimit entity delete'",
	fault.SetEntityLimits:   "'dynalimit limits set'",
	fault.SetPlanLimits:     "'dynalimit plan set'",
	fault.SetResourceLimits: "'dynalimit resource set'",
	fault.SetSystemLimits:   "'dynalimit system set'",
	fault.SetConfigs:        "'dynalimit limits set'",
	fault.DeleteLimits:      "'dynalimit limits delete'",
	fault.AddLimits:         "'dynalimit limits add'",
	fault.Upgrade:           "'dynalimit upgrade'",
	fault.GroupModels:       "'dynalimit resource set MODEL --group GROUP' for each, or write per-model behind it, such as 'usd=$5/daily,per-model'",
	fault.RaiseLimit:        "'dynalimit limits add' and --until",
	fault.TopUpBucket:       "'dynalimit bucket top-up'",
	fault.GrantWindow:       "'dynalimit bucket grant'",
	fault.PutOrg:            "'dynalimit budget orgs put'",
	fault.PutApp:            "'dynalimit budget apps put'",
	fault.DeleteOrg:         "'dynalimit budget orgs delete'",
	fault.DeleteApp:         "'dynalimit budget apps delete'",
}

// argumentOf maps fields of the library to flags or arguments, without the index of a limit.
var argumentOf = map[string]string{
	"dynalimit entity.ID": "id of an entity", "dynalimit entity.ParentID": "--parent", "dynalimit entity.Cascade": "--cascade", "dynalimit entity.Detached": "--detached",
	"dynalimit entity.Plan": "--plan", "dynalimit entity.Name": "--name", "dynalimit entity.Metadata": "--metadata",
	"dynalimit config.Name": "name of a limit", "dynalimit config.Capacity": "capacity of a limit", "dynalimit config.Burst": "burst of a limit",
	"dynalimit config.RefillAmount": "refill of a limit", "dynalimit config.RefillPeriod": "period of a limit", "dynalimit config.Window": "window of a quota",
	"dynalimit config.groups": "groups (--group)", "dynalimit config.only": "--only", "dynalimit entity.Only": "--only",
	"dynalimit until": "--until", "dynalimit capacity": "capacity of a limit", "dynalimit name": "name of a limit", "dynalimit at.resource": "--resource",
	"aggregator query.From": "--from", "aggregator query.Resource": "--resource", "aggregator resource": "--resource",
	"aggregator id": "--entity", "aggregator plan": "--plan", "aggregator parent": "--children-of",
}

// textOf returns the text of an error, and of the errors that it wraps, for users of the command line. It names
// flags instead of fields of the library, and commands instead of calls. Of an AWS error only the code and
// message stay.
func textOf(err error) string {
	switch e := err.(type) { //nolint:errorlint // this function walks the tree
	case *smithy.OperationError:
		return textOf(e.Err)
	case *smithyhttp.ResponseError:
		return textOf(e.Err)
	case *smithy.GenericAPIError:
		return e.Code + ": " + e.Message
	case *dynalimit.ValidationError:
		own := *e
		own.Fix = commandOf[e.Fix]
		if flag := argumentOf[own.Package+" "+withoutIndex(own.Field)]; flag != "" {
			return "invalid " + flag + ": " + own.Fix.After(own.Reason)
		}
		return own.Error()
	case *fault.TableError:
		own := *e
		own.Fix = commandOf[e.Fix]
		return own.Error()
	case *fault.NamespaceError:
		own := *e
		own.Fix = commandOf[e.Fix]
		return own.Error()
	case *problem.Fixable:
		return commandOf[e.Fix].After(textOf(e.Err))
	}
	text := err.Error()
	for _, part := range unwrapOnce(err) {
		if before := part.Error(); before != "" {
			text = strings.Replace(text, before, textOf(part), 1)
		}
	}
	return text
}

// unwrapOnce returns the errors that an error wraps or joins directly, without theirs. It returns nil if err
// wraps nothing.
func unwrapOnce(err error) []error {
	switch e := err.(type) { //nolint:errorlint // this function walks the tree
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	case interface{ Unwrap() error }:
		if part := e.Unwrap(); part != nil {
			return []error{part}
		}
	}
	return nil
}

// withoutIndex returns a field without the index of a limit: "config.limits[0].Burst" becomes "config.Burst".
// It returns other fields as they are.
func withoutIndex(field string) string {
	object, rest, _ := strings.Cut(field, ".")
	if i := strings.Index(rest, "]."); i > 0 && strings.HasPrefix(strings.ToLower(rest), "limits[") {
		return object + "." + rest[i+2:]
	}
	return field
}
