package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Check checks a table by its description d and further reads, and returns its state with all findings, also OK
// ones. d is nil if the caller may not describe it. It stops early for another program's table and for one
// being created; why describes a failed request.
func Check(ctx context.Context, client Client, p Plan, d *types.TableDescription, why func(error) string) State {
	c := &checking{client: client, plan: p, described: d, why: why, State: describeState(p.Name(), d)}
	if d != nil {
		c.addFinding("table", c.checkStatus())
		c.addFinding("keys", c.checkKeys())
	}
	if c.foreign || c.Status == string(types.TableStatusCreating) {
		return c.finalState()
	}
	var ttl, recovery Finding
	if d != nil {
		ttl, recovery = c.checkTTL(ctx), c.checkRecovery(ctx)
	}
	var layout []Finding
	if p.Layout != nil {
		layout = c.checkLayout(ctx)
	}
	if c.Refused { // the library would refuse to complete the table
		c.Findings = append(c.Findings, layout...)
		return c.finalState()
	}
	if d != nil {
		for _, want := range p.Input.GlobalSecondaryIndexes {
			c.addFinding("index "+aws.ToString(want.IndexName), c.checkIndex(want))
		}
		c.addFinding("billing", c.checkBilling())
		c.addFinding("ttl", ttl)
		c.addFinding("stream", c.checkStream())
		c.addFinding("recovery", recovery)
		c.addFinding("protection", c.checkProtection())
	}
	c.Findings = append(c.Findings, layout...)
	return c.finalState()
}

// finalState sets c.Ready, if the table was described and no finding is Wrong, and returns the state.
func (c *checking) finalState() State {
	d := c.described
	c.Ready = d != nil && !slices.ContainsFunc(c.Findings, func(f Finding) bool { return f.Status == Wrong })
	return c.State
}

// NoTable returns the Wrong finding that the plan's table does not exist, with the command that creates it.
func (p Plan) NoTable() Finding {
	return Finding{
		Check: "table", Status: Wrong, Found: fmt.Sprintf("there is no table %q in %s", p.Name(), p.Flags.Region),
		Means: "it has another name, is in another region or account, or has not been made", Fix: p.createCommand(),
	}
}

// createCommand returns the text of the dynalimit command that creates or completes the table. It runs nothing.
func (p Plan) createCommand() string { return p.Flags.Command("table create" + p.Flags.Budget) }

// checking is one check of a table.
type checking struct {
	State
	plan      Plan
	client    Client
	described *types.TableDescription
	why       func(error) string
}

// addFinding sets the finding's check name and appends it to c.Findings.
func (c *checking) addFinding(check string, f Finding) {
	f.Check = check
	c.Findings = append(c.Findings, f)
}

// recordFailure appends err, of a failed read of a table's setting, to c.failures with what, such as "describe
// the TTL". It returns an Unchecked finding.
func (c *checking) recordFailure(what string, err error) Finding {
	c.failures = append(c.failures, fmt.Errorf("%s of %s: %w", what, c.plan.Name(), err))
	return CannotCheck("%s", c.why(err))
}

// checkStatus returns a finding about the table's status: OK for ACTIVE and UPDATING, Wrong for others. It
// sends no request.
func (c *checking) checkStatus() Finding {
	found := fmt.Sprintf("%s is %s", c.plan.Name(), c.described.TableStatus)
	f := Finding{Status: Wrong, Found: found, Means: "it cannot be used", Fix: c.plan.Flags.Command("doctor")}
	switch c.described.TableStatus {
	case types.TableStatusActive:
		return Fine("%s", found)
	case types.TableStatusUpdating:
		return Fine("%s; it can be used meanwhile", found)
	case types.TableStatusCreating:
		f.Means = "calls fail until it is ACTIVE, which takes a minute or so: look again"
	case types.TableStatusInaccessibleEncryptionCredentials:
		key := "alias/aws/dynamodb"
		if c.KMSKey != "" {
			key = c.KMSKey
		}
		f.Means = "DynamoDB may not use the key that the table is encrypted under: enable the key, or give back its grant"
		f.Fix = c.plan.Flags.OfAWS("kms describe-key --key-id %s", key)
	}
	return f
}

// checkKeys returns a finding about the table's own key. A wrong key means another program's table: the finding
// is Wrong, and it sets c.foreign.
func (c *checking) checkKeys() Finding {
	f, wrong := c.keyFault("")
	if !wrong {
		return Fine("%s", table.KeyText(c.plan.Input.KeySchema, c.plan.Input.AttributeDefinitions))
	}
	c.foreign = true
	return Finding{
		Status: Wrong, Found: fmt.Sprintf("it has the key (%s), not (%s)", f.Found, f.Want),
		Means: "it is a table of something else: name another one", Fix: c.plan.Flags.OtherTableCommand(),
	}
}

// keyFault returns the found and wanted key of an index, or of the table for "", and true if they differ or one
// is missing. It returns false if the key is right.
func (c *checking) keyFault(index string) (table.KeyFault, bool) {
	for _, f := range table.CompareKeys(c.plan.Input, c.described) {
		if f.Index == index {
			return f, true
		}
	}
	return table.KeyFault{}, false
}

// checkIndex checks that an index exists, has the wanted key and is usable; anything else is Wrong. A
// projection other than wanted is a warning or a hint, because it costs more.
func (c *checking) checkIndex(want types.GlobalSecondaryIndex) Finding {
	key, wrong := c.keyFault(aws.ToString(want.IndexName))
	switch {
	case wrong && key.Found == "":
		return Finding{Status: Wrong, Found: "it is missing", Means: "lists that read it fail", Fix: c.addIndexCommand(want)}
	case wrong:
		return Finding{
			Status: Wrong, Found: fmt.Sprintf("it has the key (%s), not (%s)", key.Found, key.Want),
			Means: "it is an index of something else, so the table is: name another one", Fix: c.plan.Flags.OtherTableCommand(),
		}
	}
	x := c.described.GlobalSecondaryIndexes[table.FindIndex(c.described, aws.ToString(want.IndexName))]
	wanted := table.KeyText(want.KeySchema, c.plan.Input.AttributeDefinitions)
	if x.IndexStatus != "" && !isUsable(x.IndexStatus) {
		return Finding{Status: Wrong, Found: "it is " + string(x.IndexStatus), Means: "lists that read it fail until it is ACTIVE: look again", Fix: c.plan.Flags.Command("doctor")}
	}
	if x.Projection == nil {
		return Fine("(%s)", wanted)
	}
	f := Fine("(%s), %s", wanted, x.Projection.ProjectionType)
	describe := c.plan.Flags.OfAWS("dynamodb describe-table --table-name %s --query Table.GlobalSecondaryIndexes", c.plan.Name())
	switch kind := want.Projection.ProjectionType; {
	case x.Projection.ProjectionType == types.ProjectionTypeAll && kind != types.ProjectionTypeAll:
		f.Status, f.Means, f.Fix = Warning, "every write of a listed item is charged for the index as well; the library's own projects "+string(kind), describe
	case kind == types.ProjectionTypeInclude && slices.ContainsFunc(want.Projection.NonKeyAttributes, func(name string) bool {
		return !slices.Contains(x.Projection.NonKeyAttributes, name)
	}):
		f.Status, f.Means, f.Fix = Hint, "lists of children read each record besides, which costs more", describe
		f.Found += ", less than new tables have"
	}
	return f
}

// addIndexCommand returns an AWS CLI command that adds the index x to the table. It runs nothing.
func (c *checking) addIndexCommand(x types.GlobalSecondaryIndex) string {
	var hash, sort string
	for _, k := range x.KeySchema {
		if k.KeyType == types.KeyTypeHash {
			hash = aws.ToString(k.AttributeName)
		} else {
			sort = aws.ToString(k.AttributeName)
		}
	}
	projection := fmt.Sprintf(`{ProjectionType=%s}`, x.Projection.ProjectionType)
	if len(x.Projection.NonKeyAttributes) > 0 {
		projection = fmt.Sprintf(`{ProjectionType=INCLUDE,NonKeyAttributes=[%s]}`, strings.Join(x.Projection.NonKeyAttributes, ","))
	}
	return c.plan.Flags.OfAWS("dynamodb update-table --table-name %s --attribute-definitions AttributeName=%s,AttributeType=S AttributeName=%s,AttributeType=S"+
		" --global-secondary-index-updates 'Create={IndexName=%s,KeySchema=[{AttributeName=%s,KeyType=HASH},{AttributeName=%s,KeyType=RANGE}],Projection=%s}'",
		c.plan.Name(), hash, sort, aws.ToString(x.IndexName), hash, sort, projection)
}

// checkBilling returns a Warning for provisioned capacity, with its write units, and OK for a table on demand.
func (c *checking) checkBilling() Finding {
	b, t := c.described.BillingModeSummary, c.described.ProvisionedThroughput
	if b != nil && b.BillingMode == types.BillingModePayPerRequest || t == nil || aws.ToInt64(t.WriteCapacityUnits) == 0 {
		return Fine("on demand")
	}
	return Finding{
		Status: Warning, Found: fmt.Sprintf("provisioned, %d write units a second", aws.ToInt64(t.WriteCapacityUnits)),
		Means: "a call takes a write unit: more calls than that are throttled",
		Fix:   c.plan.Flags.OfAWS("dynamodb update-table --table-name %s --billing-mode PAY_PER_REQUEST", c.plan.Name()),
	}
}

// checkTTL requests the table's TTL setting and sets c.TTL to its attribute, "" if expiry is off. The finding
// is Wrong if it is off or uses another attribute, and Unchecked if the request fails.
func (c *checking) checkTTL(ctx context.Context) Finding {
	out, err := c.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: c.plan.Input.TableName})
	if err != nil {
		return c.recordFailure("describe the TTL", err)
	}
	d := out.TimeToLiveDescription
	if d != nil && (d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		c.TTL = aws.ToString(d.AttributeName)
	}
	f := Finding{Status: Wrong, Found: "off", Means: "expired items, such as unused buckets, are never deleted", Fix: c.plan.createCommand()}
	switch c.TTL {
	case c.plan.TTL:
		return Fine("on %s", c.plan.TTL)
	case "":
		return f
	}
	f.Found = fmt.Sprintf("on the attribute %q, not %s", c.TTL, c.plan.TTL)
	f.Means += "; AWS takes an hour between two changes"
	f.Fix = c.plan.Flags.OfAWS("dynamodb update-time-to-live --table-name %s --time-to-live-specification Enabled=false,AttributeName=%s", c.plan.Name(), c.TTL)
	return f
}

// checkStream returns a Warning unless the table has a stream of new and old images. It sends no request.
func (c *checking) checkStream() Finding {
	const without = "usage cannot be aggregated from it, nor expired items archived"
	switch c.Stream {
	case string(types.StreamViewTypeNewAndOldImages):
		return Fine("of new and old images")
	case "":
		return Finding{Status: Warning, Found: "off", Means: without, Fix: c.plan.createCommand()}
	}
	return Finding{
		Status: Warning, Found: "of " + c.Stream, Means: without + ": that needs NEW_AND_OLD_IMAGES; turn it off, then on again",
		Fix: c.plan.Flags.OfAWS("dynamodb update-table --table-name %s --stream-specification StreamEnabled=false", c.plan.Name()),
	}
}

// checkRecovery requests the state of point-in-time recovery and sets c.Recovery and c.Earliest. The finding is
// a Warning if it is off. If the engine does not know it or denies the request, c.Recovery is Unclear and the
// finding Unchecked.
func (c *checking) checkRecovery(ctx context.Context) Finding {
	out, err := c.client.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: c.plan.Input.TableName})
	if c.Recovery = Unclear; IsUnknown(err) || IsDenied(err) {
		return CannotCheck("%s", c.why(err))
	}
	if err != nil {
		return c.recordFailure("describe the backups", err)
	}
	c.Recovery = No
	if d := out.ContinuousBackupsDescription; d != nil && d.PointInTimeRecoveryDescription != nil {
		c.Recovery = onIf(d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled)
		c.Earliest = inUTC(d.PointInTimeRecoveryDescription.EarliestRestorableDateTime)
	}
	if c.Recovery == Yes {
		return Fine("on")
	}
	return Finding{Status: Warning, Found: "off", Means: "items that are deleted by mistake cannot be restored", Fix: c.plan.createCommand()}
}

// checkProtection returns a finding about deletion protection: OK if it is on, a Warning if off, Unchecked if
// the description does not say.
func (c *checking) checkProtection() Finding {
	switch c.Protection {
	case Yes:
		return Fine("on")
	case No:
		return Finding{Status: Warning, Found: "off", Means: "anybody who may delete tables deletes it with one command", Fix: c.plan.createCommand()}
	}
	return CannotCheck("the answer does not say")
}

// checkLayout reads the version record, sets c.Layout and c.CompositeOnly, and sets c.Refused if the library
// refuses the layout. It returns the findings about the layout and about older items.
func (c *checking) checkLayout(ctx context.Context) []Finding {
	found := func(f Finding) []Finding {
		f.Check = "layout"
		return []Finding{f}
	}
	out, err := c.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: c.plan.Input.TableName, Key: schema.VersionKey().Attributes(), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return found(c.recordFailure("read the version record", err))
	}
	record, marked := schema.DecodeVersion(out.Item)
	c.Layout, c.CompositeOnly = record.Schema, record.CompositeOnly
	_, err = c.plan.Layout.ResolveLimits(ctx, "probe", "probe")
	version, refused := errors.AsType[*fault.VersionError](err)
	_, malformed := errors.AsType[*dynalimit.ValidationError](err) // a source is malformed: the layout was judged before
	c.Refused = refused
	switch {
	case refused && version.Schema != record.Schema: // the record of zae-limiter 0.10 has another key
		return found(Finding{Status: Wrong, Found: "layout " + version.Schema + " of zae-limiter", Means: "every call fails: " + version.Reason, Fix: c.plan.Flags.exportZaeCommand()})
	case refused:
		return found(Finding{
			Status: Wrong, Found: fmt.Sprintf("layout %s, and this program knows %s", version.Schema, version.KnownSchema),
			Means: "every call fails: " + version.Reason, Fix: "dynalimit --version",
		})
	case err != nil && !malformed:
		return append(found(CannotCheck("%s", c.why(err))), c.olderItemsFinding(record))
	case !marked:
		f := c.unmarkedFinding()
		c.Refused = f.Status == Wrong // another product's
		return found(f)
	}
	return append(found(Fine("layout %s", record.Schema)), c.olderItemsFinding(record))
}

// olderItemsFinding returns the finding about items of an older layout: OK if the version record says that none
// is left, else a Warning.
func (c *checking) olderItemsFinding(record schema.VersionRecord) Finding {
	if record.CompositeOnly {
		return Finding{Check: "older items", Status: OK, Found: "none, the table is of today's layout"}
	}
	return Finding{
		Check: "older items", Status: Warning, Found: "the table was not migrated",
		Means: "items of an older layout are looked for, which costs queries and more permissions; 'migrate --dry-run' shows what there is",
		Fix:   c.plan.Flags.Command("migrate"),
	}
}

// unmarkedFinding returns the finding of a table without a version record. It is a Warning if the table is
// empty: dynalimit did not complete it. It is Wrong if the table has items, because another program probably
// uses it.
func (c *checking) unmarkedFinding() Finding {
	f := Finding{
		Status: Warning, Found: "there is no record of its version", Means: "dynalimit did not make the table, or not to the end",
		Fix: c.plan.createCommand(),
	}
	if c.Items > 0 {
		f.Status, f.Found = Wrong, fmt.Sprintf("there is no record of its version, and about %d items", c.Items)
		f.Means = "they are probably another program's: name another table; if they are zae-limiter's, run 'dynalimit migrate'"
		f.Fix = c.plan.Flags.OtherTableCommand()
	}
	return f
}
