package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// layout reads the record of the table's version, and has the library judge it.
func (v *visit) layout(ctx context.Context) Result {
	record, r := v.version(ctx)
	if r.Status != "" {
		return r
	}
	reading, cancel := v.timed(ctx)
	defer cancel()
	version, is := errors.AsType[*dynalimit.VersionError](v.Try(reading))
	switch {
	case is && record.Schema == "": // another table is what the reason says
		return Result{Status: Wrong, Found: "layout " + version.Schema + " of zae-limiter", Means: "every call fails: " + version.Reason, Fix: v.otherTable()}
	case is:
		return Result{
			Status: Wrong, Found: fmt.Sprintf("layout %s, and this program knows %s", version.Schema, version.KnownSchema),
			Means: "every call fails: " + version.Reason, Fix: "dynalimit --version",
		}
	case record.Schema == "":
		return v.unmarked()
	}
	return ok("layout %s", record.Schema)
}

// version reads the record; the Result tells why it could not be.
func (v *visit) version(ctx context.Context) (schema.VersionRecord, Result) {
	if v.down != "" {
		return schema.VersionRecord{}, unchecked("%s", v.down)
	}
	ctx, cancel := v.timed(ctx)
	defer cancel()
	out, err := v.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &v.Table, Key: schema.Keys{}.Version().Attributes(), ConsistentRead: aws.Bool(true)})
	if causeOf(err) == silent {
		v.down = "DynamoDB does not answer any more"
	}
	if err != nil {
		return schema.VersionRecord{}, unchecked("%s", v.why(err))
	}
	record, _ := schema.DecodeVersion(out.Item)
	return record, Result{}
}

// unmarked is a table without a version record: an empty one was not made by dynalimit,
// and one that holds something is probably another program's.
func (v *visit) unmarked() Result {
	r := Result{
		Status: Warning, Found: "there is no record of its version", Means: "dynalimit did not make the table, or not to the end",
		Fix: v.create(),
	}
	if v.described != nil && v.described.TableDescription != nil && aws.ToInt64(v.described.ItemCount) > 0 {
		r.Status, r.Found = Wrong, fmt.Sprintf("there is no record of its version, and about %d items", aws.ToInt64(v.described.ItemCount))
		r.Means = "they are probably another program's: name another table; if they are zae-limiter's, run 'dynalimit migrate'"
		r.Fix = v.otherTable()
	}
	return r
}

// legacy tells whether items of an older layout are looked for.
func (v *visit) legacy(ctx context.Context) Result {
	record, r := v.version(ctx)
	switch {
	case r.Status != "":
		return r
	case record.Schema == "":
		return unchecked("there is no record of its version")
	case record.CompositeOnly:
		return ok("none, the table is of today's layout")
	}
	return Result{
		Status: Warning, Found: "the table was not migrated", Means: "items of an older layout are looked for, which costs queries and more permissions; 'migrate --dry-run' shows what there is",
		Fix: v.command("migrate"),
	}
}

func (v *visit) namespace(ctx context.Context) Result {
	if v.down != "" {
		return unchecked("%s", v.down)
	}
	if v.Namespace == "" {
		return ok("none is named")
	}
	ctx, cancel := v.timed(ctx)
	defer cancel()
	err := v.Try(ctx)
	if _, is := errors.AsType[*dynalimit.NamespaceError](err); is {
		v.down = "the namespace cannot be used"
		bare := strings.ReplaceAll(v.Flags, " --namespace "+v.Namespace, "")
		if errors.Is(err, dynalimit.ErrNamespaceDeleted) {
			return Result{
				Status: Wrong, Found: fmt.Sprintf("%s was deleted", v.Namespace), Means: "every call in it fails; one that was not purged can be recovered",
				Fix: "dynalimit namespace recover " + v.Namespace + bare,
			}
		}
		return Result{
			Status: Wrong, Found: fmt.Sprintf("%s is not registered", v.Namespace), Means: "every call in it fails; a misspelt name is no new tenant",
			Fix: "dynalimit namespace register " + v.Namespace + bare,
		}
	}
	if _, invalid := errors.AsType[*dynalimit.ValidationError](err); err != nil && !invalid { // no limits are set: for others to say
		return unchecked("%s", v.why(err))
	}
	return ok("%s is registered", v.Namespace)
}

// mostLevels bounds how many levels are read, readingTimes for how many timeouts.
const mostLevels, readingTimes, batch = 5_000, 6, 100

// configuration reads every level, and names those that cannot be read.
func (v *visit) configuration(ctx context.Context) []Result {
	if v.down != "" {
		return []Result{unchecked("%s", v.down)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readingTimes*v.Timeout, errSlow)
	defer cancel()
	var pending []dynalimit.Scope
	var results []Result
	seen, plans := 0, map[string]bool{}
	read := func() error {
		broken, err := v.unreadable(ctx, pending)
		results, pending = append(results, broken...), pending[:0]
		return err
	}
	for at, err := range v.Limits.Scopes(ctx) {
		if err == nil {
			seen++
			plans[at.Plan] = true
			pending = append(pending, at)
		}
		if err == nil && len(pending) == batch {
			err = read()
		}
		if err != nil {
			return append(results, unchecked("%s; %d levels were read", v.why(err), seen-len(pending)))
		}
		if seen == mostLevels {
			break
		}
	}
	if err := read(); err != nil {
		return append(results, unchecked("%s", v.why(err)))
	}
	if seen < mostLevels {
		v.plans = plans
	}
	if len(results) > 0 {
		return results
	}
	if seen == mostLevels {
		return []Result{ok("the first %d levels can be read, the others were not looked at", seen)}
	}
	return []Result{ok("%s, all can be read", notation.Many(seen, "level"))}
}

// unreadable reads levels together, and one by one if one of them cannot be read.
func (v *visit) unreadable(ctx context.Context, levels []dynalimit.Scope) ([]Result, error) {
	if len(levels) == 0 {
		return nil, nil
	}
	_, err := v.Limits.GetConfigs(ctx, levels)
	if _, wrong := errors.AsType[*dynalimit.ValidationError](err); !wrong {
		return nil, err
	}
	var results []Result
	for _, at := range levels {
		_, err := v.Limits.GetConfig(ctx, at)
		if _, wrong := errors.AsType[*dynalimit.ValidationError](err); wrong {
			results = append(results, Result{
				Check: "configuration of " + at.String(), Status: Wrong, Found: strings.TrimPrefix(err.Error(), "dynalimit: "),
				Means: "calls that it is about fail; without it, less specific levels decide. The command prints what it removes", Fix: v.deleteLevel(at),
			})
		} else if err != nil {
			return results, err
		}
	}
	return results, nil
}

// deleteLevel removes a level that cannot be read: whatever reads it first, as the commands
// of dynalimit do, cannot.
func (v *visit) deleteLevel(at dynalimit.Scope) string {
	keys := schema.NewKeys(v.Namespace)
	key := keys.SystemConfig()
	switch {
	case at.Entity != "":
		key = keys.EntityConfig(at.Entity, at.Resource)
	case at.Plan != "":
		key = keys.PlanConfig(at.Plan, at.Resource)
	case at.Resource != "":
		key = keys.ResourceConfig(at.Resource)
	}
	return v.deleteItem(key)
}

func (v *visit) systemLimits(ctx context.Context) Result {
	if v.down != "" {
		return unchecked("%s", v.down)
	}
	ctx, cancel := v.timed(ctx)
	defer cancel()
	config, err := v.Limits.GetConfig(ctx, dynalimit.Scope{})
	switch {
	case err != nil:
		return unchecked("%s", v.why(err))
	case config.Blocked:
		return Result{Status: Wrong, Found: "the system is blocked", Means: "no call is admitted at all", Fix: v.command("system show")}
	case config.Unlimited:
		return Result{Status: Hint, Found: "the system is unlimited", Means: "who has no limits of their own is not limited", Fix: v.command("system show")}
	case len(config.Limits) == 0:
		return Result{
			Status: Hint, Found: "there are none", Means: "calls of an entity that has no other limits fail, unless the service gives some to New",
			Fix: v.command("system set rpm=100"),
		}
	}
	return ok("%s", notation.Many(len(config.Limits), "limit"))
}

// deleteItem is the command that deletes an item, and shows what it held.
func (v *visit) deleteItem(key schema.Key) string {
	return v.awsCommand(`dynamodb delete-item --table-name %s --key '{"PK":{"S":%q},"SK":{"S":%q}}' --return-values ALL_OLD`, v.Table, key.PK, key.SK)
}
