package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// rolesCommand prints the policies of the roles.
const rolesCommand = "template --parts roles"

// never is a condition that no item fulfils, not even an absent one. DynamoDB evaluates it only
// after it has checked the caller's permission.
const never = "attribute_exists(PK) AND attribute_not_exists(PK)"

// probe tests one permission without changing anything.
type probe struct {
	action string
	// on is the index, or "" for the table.
	on  string
	ask func(ctx context.Context, p probe, c tables.Client, at place) error
}

// place is the item that probes use. It never exists.
type place struct {
	table string
	key   schema.Item
}

// neededActions returns a probe for each DynamoDB action that the role v.Role needs on the table of limits.
// Roles that query get a probe for each index too. With a namespace the administrator does not need Scan.
func (v *visit) neededActions() []probe {
	get, batchGet, update := probe{"GetItem", "", probeGet}, probe{"BatchGetItem", "", probeBatchGet}, probe{"UpdateItem", "", probeUpdate}
	queries := []probe{{"Query", "", probeQuery}}
	for _, x := range v.Limits.TableInput().GlobalSecondaryIndexes {
		queries = append(queries, probe{"Query", aws.ToString(x.IndexName), probeQuery})
	}
	acquire, read := []probe{get, batchGet, update}, append([]probe{get, batchGet}, queries...)
	switch v.Role {
	case RoleAcquire:
		return acquire
	case RoleRead:
		return read
	case RoleAdmin:
		admin := append(read, update, probe{"PutItem", "", probePut}, probe{"DeleteItem", "", probeDelete},
			probe{"ConditionCheckItem", "", probeConditionCheck}, probe{"BatchWriteItem", "", probeBatchWrite})
		if v.Namespace == "" {
			admin = append(admin, probe{"Scan", "", probeScan})
		}
		return admin
	case RoleService:
	}
	return append(acquire, queries...)
}

// checkPermissions sends a harmless probe for each action that the role needs, on a bucket that does not exist,
// and returns their findings. It adds a Wrong one if DynamoDB served none of them.
func (v *visit) checkPermissions(ctx context.Context) []tables.Finding {
	at := place{v.table.Name(), schema.NewKeys(v.Namespace).Bucket("probe-"+rand.Text(), "probe").Attributes()}
	var results []tables.Finding
	for _, p := range v.neededActions() {
		r := v.testPermission(ctx, p, at)
		r.Check = "permission " + p.action
		if p.on != "" {
			r.Check += " on " + p.on
		}
		results = append(results, r)
	}
	if f, unserved := v.unservedFinding(); unserved {
		results = append(results, f)
	}
	return results
}

// unservedFinding returns a Wrong finding and true if DynamoDB throttled every probe of a permission, or
// stopped answering. It returns false if one was served, or none was sent.
func (v *visit) unservedFinding() (tables.Finding, bool) {
	f := tables.Finding{Check: "requests", Status: tables.Wrong, Means: "calls of services fail, or end as their policy for outages says", Fix: v.table.Flags.Command("table status")}
	switch {
	case v.served:
		return f, false
	case v.throttled:
		f.Found = "DynamoDB throttles every request to " + v.table.Name()
		f.Means += ": its throughput or its maximum is used up, or one partition takes it all"
	case v.down == mute:
		f.Found, f.Fix = v.table.Name()+" answers no request about its items", v.tableCommand("doctor")
	default:
		return f, false
	}
	return f, true
}

// testPermission sends one probe and returns OK if it is permitted, Wrong if denied, else Unchecked. It sets
// v.served, v.throttled or, without an answer, v.down. If v.down is set already, it sends nothing.
func (v *visit) testPermission(ctx context.Context, p probe, at place) tables.Finding {
	if v.down != "" {
		return tables.CannotCheck("%s", v.down)
	}
	err := p.ask(ctx, p, v.Client, at)
	c := causeOf(err)
	v.served, v.throttled = v.served || c != silent && c != throttled, v.throttled || c == throttled
	switch {
	case c == none || conditionFailed(err):
		return tables.Fine("permitted")
	case c == denied:
		return tables.Finding{
			Status: tables.Wrong, Found: v.explainError(err), Means: "the role " + string(v.Role) + " needs it; the policies of the roles are printed by the command below",
			Fix: v.tableCommand(rolesCommand),
		}
	case c == silent:
		v.down = mute
		return tables.CannotCheck("%s: the network, not the permission", v.explainError(err))
	default:
		return tables.CannotCheck("%s", v.explainError(err))
	}
}

// conditionFailed reports whether err says that a write or transaction failed by its condition, which proves
// that it was permitted.
func conditionFailed(err error) bool {
	if _, failed := errors.AsType[*types.ConditionalCheckFailedException](err); failed {
		return true
	}
	canceled, is := errors.AsType[*types.TransactionCanceledException](err)
	return is && slices.ContainsFunc(canceled.CancellationReasons, func(r types.CancellationReason) bool {
		return aws.ToString(r.Code) == "ConditionalCheckFailed"
	})
}

// probeGet reads the item at, which does not exist, consistently, and returns the error of the request; nil
// means that reading is permitted.
func probeGet(ctx context.Context, _ probe, c tables.Client, at place) error {
	_, err := c.GetItem(ctx, &dynamodb.GetItemInput{TableName: &at.table, Key: at.key, ConsistentRead: aws.Bool(true)})
	return err
}

// probeBatchGet reads the item at, which does not exist, in a batch, and returns the error of the request; nil
// means that it is permitted.
func probeBatchGet(ctx context.Context, _ probe, c tables.Client, at place) error {
	_, err := c.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{at.table: {Keys: []schema.Item{at.key}}}})
	return err
}

// probeQuery queries the key of the item at, which does not exist, in the table or in the index p.on. It
// returns the error of the request; nil means that it is permitted.
func probeQuery(ctx context.Context, p probe, c tables.Client, at place) error {
	in := &dynamodb.QueryInput{
		TableName: &at.table, KeyConditionExpression: aws.String("#0 = :0"), Limit: aws.Int32(1),
		ExpressionAttributeNames: map[string]string{"#0": schema.PK}, ExpressionAttributeValues: schema.Item{":0": at.key[schema.PK]},
	}
	if p.on != "" {
		in.IndexName, in.ExpressionAttributeNames["#0"] = &p.on, p.on+"PK"
	}
	_, err := c.Query(ctx, in)
	return err
}

// probeScan scans one item of the table, any item, and returns the error of the request; nil means that scans
// are permitted.
func probeScan(ctx context.Context, _ probe, c tables.Client, at place) error {
	_, err := c.Scan(ctx, &dynamodb.ScanInput{TableName: &at.table, Limit: aws.Int32(1)})
	return err
}

// probeUpdate sends an update with a condition that never holds, and returns the error. The condition names the
// attributes of quotas and later kinds of limits, so an older role, which may not write these, is denied.
func probeUpdate(ctx context.Context, _ probe, c tables.Client, at place) error {
	condition := never
	for _, name := range schema.KindsState() {
		condition += " AND attribute_not_exists(" + name + ")"
	}
	_, err := c.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &at.table, Key: at.key, ConditionExpression: &condition})
	return err
}

// probePut sends a put with a condition that never holds, and returns the error. A failed condition means that
// the put is permitted.
func probePut(ctx context.Context, _ probe, c tables.Client, at place) error {
	_, err := c.PutItem(ctx, &dynamodb.PutItemInput{TableName: &at.table, Item: at.key, ConditionExpression: aws.String(never)})
	return err
}

// probeDelete sends a deletion with a condition that never holds, and returns the error. A failed condition
// means that the deletion is permitted.
func probeDelete(ctx context.Context, _ probe, c tables.Client, at place) error {
	_, err := c.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &at.table, Key: at.key, ConditionExpression: aws.String(never)})
	return err
}

// probeConditionCheck sends a transaction that consists of a condition that never holds, and returns the error.
// A failed condition means that the check is permitted.
func probeConditionCheck(ctx context.Context, _ probe, c tables.Client, at place) error {
	_, err := c.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{ConditionCheck: &types.ConditionCheck{TableName: &at.table, Key: at.key, ConditionExpression: aws.String(never)}},
	}})
	return err
}

// probeBatchWrite sends a batch that deletes the item at, which never exists, because a batch has no
// conditions. It returns the error of the request; nil means that it is permitted.
func probeBatchWrite(ctx context.Context, _ probe, c tables.Client, at place) error {
	_, err := c.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
		at.table: {{DeleteRequest: &types.DeleteRequest{Key: at.key}}},
	}})
	return err
}
