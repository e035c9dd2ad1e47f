package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// create completes a table, or makes it.
func (v *visit) create() string { return v.command("table create") }

func (v *visit) table(context.Context) Result {
	if v.described == nil {
		v.undescribed = v.down
		return unchecked("%s", v.down)
	}
	switch causeOf(v.described.err) {
	case none:
	case missing:
		v.undescribed, v.down = "there is no table", "there is no table"
		return Result{
			Status: Wrong, Found: fmt.Sprintf("there is no table %q in %s", v.Table, v.Region),
			Means: "it has another name, is in another region or account, or has not been made", Fix: v.create(),
		}
	default:
		if v.undescribed = v.down; v.down == "" {
			v.undescribed = "it cannot be described: " + v.why(v.described.err)
		}
		return unchecked("%s", v.undescribed)
	}
	return v.status(v.described.TableDescription)
}

// status tells whether a table can be used.
func (v *visit) status(table *types.TableDescription) Result {
	name := aws.ToString(table.TableName)
	found := fmt.Sprintf("%s is %s", name, table.TableStatus)
	again := v.command("doctor")
	switch table.TableStatus {
	case types.TableStatusActive:
		return ok("%s", found)
	case types.TableStatusUpdating:
		return ok("%s; it can be used meanwhile", found)
	case types.TableStatusCreating:
		return Result{Status: Wrong, Found: found, Means: "calls fail until it is ACTIVE, which takes a minute or so: look again", Fix: again}
	case types.TableStatusInaccessibleEncryptionCredentials:
		return Result{
			Status: Wrong, Found: found, Means: "DynamoDB may not use the key that the table is encrypted under: enable the key, or give back its grant",
			Fix: v.awsCommand("kms describe-key --key-id %s", keyOf(table)),
		}
	}
	return Result{Status: Wrong, Found: found, Means: "it cannot be used", Fix: again}
}

func keyOf(table *types.TableDescription) string {
	if table.SSEDescription == nil || table.SSEDescription.KMSMasterKeyArn == nil {
		return "alias/aws/dynamodb"
	}
	return *table.SSEDescription.KMSMasterKeyArn
}

// known is the table's description; the Result tells why there is none.
func (v *visit) known() (*types.TableDescription, Result) {
	if v.undescribed != "" {
		return nil, unchecked("%s", v.undescribed)
	}
	return v.described.TableDescription, Result{}
}

func (v *visit) keys(context.Context) Result {
	table, none := v.known()
	if table == nil {
		return none
	}
	want := v.Limits.TableInput()
	found, wanted := keyText(table.KeySchema, table.AttributeDefinitions), keyText(want.KeySchema, want.AttributeDefinitions)
	if found == wanted {
		return ok("%s", found)
	}
	v.down, v.undescribed = "the table is not one of dynalimit", "the table is not one of dynalimit"
	return Result{
		Status: Wrong, Found: fmt.Sprintf("it has the key (%s), not (%s)", found, wanted),
		Means: "it is a table of something else: name another one", Fix: v.otherTable(),
	}
}

// otherTable makes a table under another name.
func (v *visit) otherTable() string {
	return "dynalimit table create --table " + v.Table + "-limits" + v.withoutTable()
}

// withoutTable are the flags besides the table's.
func (v *visit) withoutTable() string { return strings.ReplaceAll(v.Flags, " --table "+v.Table, "") }

// keyText spells a key: "PK S, SK S".
func keyText(key []types.KeySchemaElement, definitions []types.AttributeDefinition) string {
	var parts []string
	for _, kind := range []types.KeyType{types.KeyTypeHash, types.KeyTypeRange} {
		for _, k := range key {
			if k.KeyType != kind {
				continue
			}
			text := aws.ToString(k.AttributeName)
			for _, d := range definitions {
				if aws.ToString(d.AttributeName) == text {
					text += " " + string(d.AttributeType)
					break
				}
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

func (v *visit) indexes(context.Context) []Result {
	table, none := v.known()
	if table == nil {
		none.Check = "indexes"
		return []Result{none}
	}
	want := v.Limits.TableInput()
	var results []Result
	for _, x := range want.GlobalSecondaryIndexes {
		r := v.index(table, x, want.AttributeDefinitions)
		r.Check = "index " + aws.ToString(x.IndexName)
		results = append(results, r)
	}
	return results
}

func (v *visit) index(table *types.TableDescription, want types.GlobalSecondaryIndex, definitions []types.AttributeDefinition) Result {
	name := aws.ToString(want.IndexName)
	i := slices.IndexFunc(table.GlobalSecondaryIndexes, func(x types.GlobalSecondaryIndexDescription) bool {
		return aws.ToString(x.IndexName) == name
	})
	wanted := keyText(want.KeySchema, definitions)
	if i < 0 {
		return Result{Status: Wrong, Found: "it is missing", Means: "lists that read it fail", Fix: v.addIndex(want)}
	}
	x := table.GlobalSecondaryIndexes[i]
	if found := keyText(x.KeySchema, table.AttributeDefinitions); found != wanted {
		return Result{
			Status: Wrong, Found: fmt.Sprintf("it has the key (%s), not (%s)", found, wanted),
			Means: "it is an index of something else, so the table is: name another one", Fix: v.otherTable(),
		}
	}
	if x.IndexStatus != "" && x.IndexStatus != types.IndexStatusActive && x.IndexStatus != types.IndexStatusUpdating {
		return Result{Status: Wrong, Found: "it is " + string(x.IndexStatus), Means: "lists that read it fail until it is ACTIVE: look again", Fix: v.command("doctor")}
	}
	return v.projection(x, want.Projection, wanted)
}

// projection tells what an index costs: other ones than the library's work, and cost more.
func (v *visit) projection(x types.GlobalSecondaryIndexDescription, want *types.Projection, key string) Result {
	kind := types.ProjectionType("")
	if x.Projection != nil {
		kind = x.Projection.ProjectionType
	}
	found := fmt.Sprintf("(%s), %s", key, kind)
	switch {
	case kind == "":
		return ok("(%s)", key)
	case kind == types.ProjectionTypeAll && want.ProjectionType != types.ProjectionTypeAll:
		return Result{
			Status: Warning, Found: found, Means: "every write of what it lists is charged for it as well; the library's own projects " + string(want.ProjectionType),
			Fix: v.awsCommand("dynamodb describe-table --table-name %s --query Table.GlobalSecondaryIndexes", v.Table),
		}
	case want.ProjectionType == types.ProjectionTypeInclude && !projects(x.Projection, want.NonKeyAttributes):
		return Result{
			Status: Hint, Found: found + ", less than new tables have", Means: "lists of children read each record besides, which costs more",
			Fix: v.awsCommand("dynamodb describe-table --table-name %s --query Table.GlobalSecondaryIndexes", v.Table),
		}
	}
	return ok("%s", found)
}

func projects(p *types.Projection, names []string) bool {
	for _, name := range names {
		if !slices.Contains(p.NonKeyAttributes, name) {
			return false
		}
	}
	return true
}

// addIndex is the command that adds an index to a table.
func (v *visit) addIndex(x types.GlobalSecondaryIndex) string {
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
	return v.awsCommand("dynamodb update-table --table-name %s --attribute-definitions AttributeName=%s,AttributeType=S AttributeName=%s,AttributeType=S"+
		" --global-secondary-index-updates 'Create={IndexName=%s,KeySchema=[{AttributeName=%s,KeyType=HASH},{AttributeName=%s,KeyType=RANGE}],Projection=%s}'",
		v.Table, hash, sort, aws.ToString(x.IndexName), hash, sort, projection)
}

func (v *visit) billing(context.Context) Result {
	table, none := v.known()
	if table == nil {
		return none
	}
	if b := table.BillingModeSummary; b != nil && b.BillingMode == types.BillingModePayPerRequest {
		return ok("on demand")
	}
	if t := table.ProvisionedThroughput; t == nil || aws.ToInt64(t.WriteCapacityUnits) == 0 {
		return ok("on demand")
	}
	return Result{
		Status: Warning, Found: fmt.Sprintf("provisioned, %d write units a second", aws.ToInt64(table.ProvisionedThroughput.WriteCapacityUnits)),
		Means: "a call takes a write unit: more calls than that are throttled",
		Fix:   v.awsCommand("dynamodb update-table --table-name %s --billing-mode PAY_PER_REQUEST", v.Table),
	}
}

func (v *visit) ttl(ctx context.Context) Result {
	if _, none := v.known(); none.Status != "" {
		return none
	}
	ctx, cancel := v.timed(ctx)
	defer cancel()
	out, err := v.Client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &v.Table})
	if err != nil {
		return unchecked("%s", v.why(err))
	}
	return v.ttlOf(out.TimeToLiveDescription, expiry{v.Table, "ttl", "buckets that nobody uses, and events, are never deleted", v.create()})
}

// expiry is how the items of a table are to expire.
type expiry struct {
	table, attribute string
	// without is what follows where they do not, and create the command that turns it on.
	without, create string
}

func (v *visit) ttlOf(ttl *types.TimeToLiveDescription, want expiry) Result {
	on := ttl != nil && (ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabled || ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabling)
	switch {
	case on && aws.ToString(ttl.AttributeName) == want.attribute:
		return ok("on %s", want.attribute)
	case on:
		return Result{
			Status: Wrong, Found: fmt.Sprintf("on the attribute %q, not %s", aws.ToString(ttl.AttributeName), want.attribute),
			Means: want.without + "; AWS takes an hour between two changes",
			Fix:   v.awsCommand("dynamodb update-time-to-live --table-name %s --time-to-live-specification Enabled=false,AttributeName=%s", want.table, aws.ToString(ttl.AttributeName)),
		}
	}
	return Result{Status: Wrong, Found: "off", Means: want.without, Fix: want.create}
}

func (v *visit) stream(context.Context) Result {
	table, none := v.known()
	if table == nil {
		return none
	}
	s := table.StreamSpecification
	switch {
	case s == nil || !aws.ToBool(s.StreamEnabled):
		return Result{Status: Warning, Found: "off", Means: "usage cannot be aggregated from it", Fix: v.create()}
	case s.StreamViewType != types.StreamViewTypeNewAndOldImages:
		return Result{
			Status: Warning, Found: "of " + string(s.StreamViewType), Means: "usage cannot be aggregated from it: that needs NEW_AND_OLD_IMAGES; turn it off, then on again",
			Fix: v.awsCommand("dynamodb update-table --table-name %s --stream-specification StreamEnabled=false", v.Table),
		}
	}
	return ok("of new and old images")
}

func (v *visit) recovery(ctx context.Context) Result {
	if _, none := v.known(); none.Status != "" {
		return none
	}
	ctx, cancel := v.timed(ctx)
	defer cancel()
	out, err := v.Client.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &v.Table})
	if err != nil {
		return unchecked("%s", v.why(err))
	}
	if d := out.ContinuousBackupsDescription; d != nil && d.PointInTimeRecoveryDescription != nil &&
		d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled {
		return ok("on")
	}
	return Result{Status: Warning, Found: "off", Means: "limits that are deleted by mistake cannot be had back", Fix: v.create()}
}

func (v *visit) protection(context.Context) Result {
	table, none := v.known()
	if table == nil {
		return none
	}
	if table.DeletionProtectionEnabled == nil {
		return unchecked("the answer does not say")
	}
	if *table.DeletionProtectionEnabled {
		return ok("on")
	}
	return Result{Status: Warning, Found: "off", Means: "whoever may delete tables deletes it with one command", Fix: v.create()}
}

func (v *visit) budget(ctx context.Context) []Result {
	var results []Result
	for _, name := range v.Budget {
		r := v.budgetTable(ctx, name)
		r.Check = "budget table " + name
		results = append(results, r)
	}
	return results
}

func (v *visit) budgetTable(ctx context.Context, name string) Result {
	if v.down != "" && v.down != "there is no table" && v.down != "the table is not one of dynalimit" {
		return unchecked("%s", v.down)
	}
	facts := v.describe(ctx, name)
	switch causeOf(facts.err) {
	case none:
	case missing:
		return Result{Status: Wrong, Found: fmt.Sprintf("there is no table %q in %s", name, v.Region), Means: "calls that have a budget fail", Fix: v.command("table create --budget" + v.BudgetFlags)}
	default:
		return unchecked("%s", v.why(facts.err))
	}
	if key := keyText(facts.KeySchema, facts.AttributeDefinitions); key != "PK S, SK S" {
		return Result{Status: Wrong, Found: fmt.Sprintf("it has the key (%s), not (PK S, SK S)", key), Means: "it is a table of something else: name others with --control and --usage", Fix: "dynalimit doctor --help"}
	}
	if r := v.status(facts.TableDescription); r.Status != OK {
		return r
	}
	ctx, cancel := v.timed(ctx)
	defer cancel()
	out, err := v.Client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return unchecked("its time to live: %s", v.why(err))
	}
	r := v.ttlOf(out.TimeToLiveDescription, expiry{name, "ttl_epoch", "what has expired is never deleted", v.command("table create --budget" + v.BudgetFlags)})
	if r.Status != OK {
		r.Found = "its time to live is " + r.Found
		return r
	}
	return ok("%s is %s, time to live on ttl_epoch", name, facts.TableStatus)
}
