package ddbmem_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// setCases makes rapid run 2,000 cases, the same every time, or as many others as
// DYNALIMIT_FUZZ_CASES says.
func setCases(t testing.TB) {
	checks, seed := "2000", "1"
	if text := os.Getenv("DYNALIMIT_FUZZ_CASES"); text != "" {
		_, err := strconv.Atoi(text)
		require.NoError(t, err, "DYNALIMIT_FUZZ_CASES")
		checks, seed = text, "0" // 0: a random one, which a failure shows
	}
	for name, v := range map[string]string{"rapid.checks": checks, "rapid.seed": seed} {
		previous := flag.Lookup(name).Value.String()
		require.NoError(t, flag.Set(name, v))
		t.Cleanup(func() { require.NoError(t, flag.Set(name, previous)) })
	}
}

// withIndex gives a table the index "byG" on g and h.
func withIndex(in *dynamodb.CreateTableInput) {
	in.AttributeDefinitions = append(in.AttributeDefinitions,
		types.AttributeDefinition{AttributeName: aws.String("g"), AttributeType: types.ScalarAttributeTypeS},
		types.AttributeDefinition{AttributeName: aws.String("h"), AttributeType: types.ScalarAttributeTypeN})
	in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{
		IndexName: aws.String("byG"),
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("g"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("h"), KeyType: types.KeyTypeRange},
		},
		Projection: &types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: []string{"n"}},
	}}
}

// TestDifferential sends the same random requests to two engines and wants the
// same answers: the same values when both accept, the same kind of error when
// not. Without an engine at DYNALIMIT_TEST_ENDPOINT the second is ddbmem over
// HTTP, which tests the transport and that answers depend on nothing but the
// requests.
func TestDifferential(t *testing.T) {
	ours := ddbmem.New().Client(once)
	endpoint := engineEndpoint(t)
	oracle := endpoint != ""
	if !oracle {
		server := httptest.NewServer(ddbmem.New())
		defer server.Close()
		endpoint = server.URL
	}
	other := remoteEngine(t, endpoint).client
	table := fmt.Sprintf("differential-%d", time.Now().UnixNano())
	for _, client := range []*dynamodb.Client{ours, other} {
		createTable(t, client, table, true, withIndex)
	}
	setCases(t)
	var cases, compared, accepted, skipped atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		c := &comparison{t: t, ours: ours, other: other, table: table, partition: fmt.Sprintf("case-%d", cases.Add(1))}
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			step := c.request()
			a, b := step.run(ours), step.run(other)
			compared.Add(1)
			if !a.failed() {
				accepted.Add(1)
			}
			sa, sb := c.state(ours), c.state(other)
			if a.text == b.text && sa == sb {
				continue
			}
			if k := knownDifference(step, a, b); oracle && k != nil && (sa == sb || !k.sameItems) {
				skipped.Add(1)
				if sa != sb {
					return // from here on the two hold different items
				}
				continue
			}
			t.Fatalf("%s\nddbmem: %q\nother:  %q\nwhich leaves\nddbmem: %s\nother:  %s", step.text, a, b, sa, sb)
		}
	})
	t.Logf("compared %d answers (%d accepted), skipped %d known differences; another engine: %v", compared.Load(), accepted.Load(), skipped.Load(), oracle)
	require.Positive(t, accepted.Load())
}

// comparison is one case: a few items in a partition of their own.
type comparison struct {
	t           *rapid.T
	ours, other *dynamodb.Client
	table       string
	partition   string
}

// request is one random request.
type request struct {
	text string
	run  func(*dynamodb.Client) outcome
}

// outcome is an answer as text to compare, and the message of an error.
type outcome struct{ text, message string }

func (o outcome) failed() bool { return strings.HasPrefix(o.text, "error") }

func answered(text string) outcome { return outcome{text: text} }

func (c *comparison) key() item {
	k := item{"PK": str(c.partition), "SK": str(pick(c.t, "item", "1", "2"))}
	if chance(c.t, 40, "bad key") {
		delete(k, "SK")
	}
	return k
}

// state is all items of the case.
func (c *comparison) state(client *dynamodb.Client) string {
	out, err := client.Query(context.Background(), &dynamodb.QueryInput{
		TableName: aws.String(c.table), KeyConditionExpression: aws.String("PK = :p"),
		ExpressionAttributeValues: item{":p": str(c.partition)}, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return failureOf(err).text
	}
	return showItems(out.Items)
}

func (c *comparison) request() request {
	switch rapid.IntRange(0, 9).Draw(c.t, "operation") {
	case 0, 1:
		return c.put()
	case 2, 3, 4, 5:
		return c.update()
	case 6:
		return c.remove()
	case 7:
		return c.get()
	case 8:
		return c.query()
	}
	return c.transaction()
}

func optional(text string, given bool) *string {
	if !given {
		return nil
	}
	return &text
}

func (c *comparison) put() request {
	e := newExpression(c.t)
	conditional := rapid.Bool().Draw(c.t, "conditional")
	in := &dynamodb.PutItemInput{
		TableName: aws.String(c.table), Item: randomItem(c.t, c.key()),
		ReturnValues:                        pick(c.t, "return", types.ReturnValueNone, types.ReturnValueAllOld),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if conditional {
		in.ConditionExpression = aws.String(e.spoil(e.condition(2)))
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.givenNames(), e.givenValues()
	return request{
		fmt.Sprintf("PutItem %s if %s %s", showItem(in.Item), aws.ToString(in.ConditionExpression), e), func(client *dynamodb.Client) outcome {
			out, err := client.PutItem(context.Background(), in)
			if err != nil {
				return failureOf(err)
			}
			return answered(showItem(out.Attributes))
		},
	}
}

func (e *expression) String() string { return fmt.Sprintf("%v %s", e.names, showItem(e.values)) }

func (c *comparison) update() request {
	e := newExpression(c.t)
	update := e.spoil(e.update())
	conditional := rapid.Bool().Draw(c.t, "conditional")
	condition := ""
	if conditional {
		condition = e.spoil(e.condition(1))
	}
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String(c.table), Key: c.key(), UpdateExpression: &update,
		ConditionExpression: optional(condition, conditional),
		ReturnValues: pick(c.t, "return", types.ReturnValueNone, types.ReturnValueAllOld, types.ReturnValueAllNew,
			types.ReturnValueUpdatedNew, types.ReturnValueUpdatedOld),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ExpressionAttributeNames:            e.givenNames(), ExpressionAttributeValues: e.givenValues(),
	}
	return request{
		fmt.Sprintf("UpdateItem %s %q if %q %s, %s; %s", showItem(in.Key), update, condition, in.ReturnValues, e, c.state(c.ours)), func(client *dynamodb.Client) outcome {
			out, err := client.UpdateItem(context.Background(), in)
			if err != nil {
				return failureOf(err)
			}
			return answered(showItem(out.Attributes))
		},
	}
}

func (c *comparison) remove() request {
	e := newExpression(c.t)
	in := &dynamodb.DeleteItemInput{
		TableName: aws.String(c.table), Key: c.key(), ConditionExpression: aws.String(e.spoil(e.condition(2))),
		ReturnValues:                        types.ReturnValueAllOld,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ExpressionAttributeNames:            e.givenNames(), ExpressionAttributeValues: e.givenValues(),
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.givenNames(), e.givenValues()
	return request{
		fmt.Sprintf("DeleteItem %s if %q %s; %s", showItem(in.Key), *in.ConditionExpression, e, c.state(c.ours)), func(client *dynamodb.Client) outcome {
			out, err := client.DeleteItem(context.Background(), in)
			if err != nil {
				return failureOf(err)
			}
			return answered(showItem(out.Attributes))
		},
	}
}

func (c *comparison) get() request {
	e := newExpression(c.t)
	in := &dynamodb.GetItemInput{TableName: aws.String(c.table), Key: c.key(), ProjectionExpression: aws.String(e.spoil(e.projection()))}
	e.values = nil
	in.ExpressionAttributeNames = e.givenNames()
	return request{
		fmt.Sprintf("GetItem %s %q %s; %s", showItem(in.Key), *in.ProjectionExpression, e, c.state(c.ours)), func(client *dynamodb.Client) outcome {
			out, err := client.GetItem(context.Background(), in)
			if err != nil {
				return failureOf(err)
			}
			return answered(showItem(out.Item))
		},
	}
}

func (c *comparison) query() request {
	e := newExpression(c.t)
	keys := "PK = " + e.value(str(c.partition))
	if rapid.Bool().Draw(c.t, "sort key") {
		keys += pick(c.t, "sort", " AND SK > :s", " AND SK <= :s", " AND begins_with(SK, :s)", " AND SK BETWEEN :s AND :s", " AND SK <> :s", " OR SK = :s")
		e.values[":s"] = str(pick(c.t, "bound", "1", "2"))
	}
	in := &dynamodb.QueryInput{TableName: aws.String(c.table), KeyConditionExpression: aws.String(keys), FilterExpression: aws.String(e.spoil(e.condition(2)))}
	in.ScanIndexForward = aws.Bool(rapid.Bool().Draw(c.t, "forward"))
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.givenNames(), e.givenValues()
	return request{
		fmt.Sprintf("Query %q filter %q %s; %s", keys, *in.FilterExpression, e, c.state(c.ours)), func(client *dynamodb.Client) outcome {
			out, err := client.Query(context.Background(), in)
			if err != nil {
				return failureOf(err)
			}
			return answered(fmt.Sprint(out.Count, out.ScannedCount, showItems(out.Items)))
		},
	}
}

func (c *comparison) transaction() request {
	var items []types.TransactWriteItem
	var text []string
	for range rapid.IntRange(1, 2).Draw(c.t, "items") {
		e := newExpression(c.t)
		condition := optional(e.condition(1), rapid.Bool().Draw(c.t, "conditional"))
		if condition == nil {
			e = newExpression(c.t)
		}
		failing := types.ReturnValuesOnConditionCheckFailureAllOld
		var it types.TransactWriteItem
		switch rapid.IntRange(0, 2).Draw(c.t, "part") {
		case 0:
			p := &types.Put{TableName: &c.table, Item: randomItem(c.t, c.key()), ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: failing}
			p.ExpressionAttributeNames, p.ExpressionAttributeValues = e.givenNames(), e.givenValues()
			it.Put = p
			text = append(text, fmt.Sprintf("Put %s if %q %s", showItem(p.Item), aws.ToString(condition), e))
		case 1:
			u := &types.Update{TableName: &c.table, Key: c.key(), UpdateExpression: aws.String(e.update()), ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: failing}
			u.ExpressionAttributeNames, u.ExpressionAttributeValues = e.givenNames(), e.givenValues()
			it.Update = u
			text = append(text, fmt.Sprintf("Update %s %q if %q %s", showItem(u.Key), *u.UpdateExpression, aws.ToString(condition), e))
		default:
			d := &types.Delete{TableName: &c.table, Key: c.key(), ConditionExpression: condition, ReturnValuesOnConditionCheckFailure: failing}
			d.ExpressionAttributeNames, d.ExpressionAttributeValues = e.givenNames(), e.givenValues()
			it.Delete = d
			text = append(text, fmt.Sprintf("Delete %s if %q %s", showItem(d.Key), aws.ToString(condition), e))
		}
		items = append(items, it)
	}
	return request{"TransactWriteItems " + strings.Join(text, "; ") + "; " + c.state(c.ours), func(client *dynamodb.Client) outcome {
		_, err := client.TransactWriteItems(context.Background(), &dynamodb.TransactWriteItemsInput{TransactItems: items})
		return failureOf(err)
	}}
}

// failureOf is the kind of an error with the items it carries.
func failureOf(err error) outcome {
	var conditional *types.ConditionalCheckFailedException
	var cancelled *types.TransactionCanceledException
	var api smithy.APIError
	switch {
	case err == nil:
		return answered("done")
	case errors.As(err, &conditional):
		return outcome{"error ConditionalCheckFailedException " + showItem(conditional.Item), err.Error()}
	case errors.As(err, &cancelled):
		var reasons, messages []string
		for _, r := range cancelled.CancellationReasons {
			reasons = append(reasons, aws.ToString(r.Code)+showItem(r.Item))
			messages = append(messages, aws.ToString(r.Message))
		}
		return outcome{"error TransactionCanceledException " + strings.Join(reasons, ", "), strings.Join(messages, ", ")}
	case errors.As(err, &api):
		return outcome{"error " + api.ErrorCode(), api.ErrorMessage()}
	}
	return outcome{"error", err.Error()}
}
