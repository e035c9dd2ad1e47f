package infra

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Condition keys of DynamoDB, and the operator that compares them.
const (
	leadingKeys   = "dynamodb:LeadingKeys"
	attributes    = "dynamodb:Attributes"
	allLike       = "ForAllValues:StringLike"
	viaService    = "kms:ViaService"
	actionsPrefix = "dynamodb:"
)

// guarded is a wire to DynamoDB that asks IAM about every request before it passes, and
// remembers what was asked.
type guarded struct {
	next   aws.HTTPClient
	policy iamPolicy
	place  Place

	mu    sync.Mutex
	calls []iamCall
}

// through is an option for SDK clients.
func (g *guarded) through(o *dynamodb.Options) { o.HTTPClient = g }

// Do implements aws.HTTPClient.
func (g *guarded) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var in request
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	calls := in.calls(operation, g.place)
	g.mu.Lock()
	g.calls = append(g.calls, calls...)
	g.mu.Unlock()
	for _, c := range calls {
		if !g.policy.allows(c) {
			return refused(r, c), nil
		}
	}
	return g.next.Do(r)
}

// refused is DynamoDB's answer to a request that IAM refuses.
func refused(r *http.Request, c iamCall) *http.Response {
	text := fmt.Sprintf(`{"__type": "com.amazon.coral.service#AccessDeniedException", "Message": "User is not authorized to perform: %s on resource: %s"}`, c.Action, c.Resource)
	return &http.Response{
		StatusCode: http.StatusBadRequest, Request: r, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(strings.NewReader(text)),
	}
}

// seen are the calls so far.
func (g *guarded) seen() []iamCall {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.calls)
}

// request is what IAM sees of a request, or of a part of one.
type request struct {
	TableName                              string
	IndexName                              string
	Key, Item                              map[string]any
	Keys                                   []map[string]any
	UpdateExpression, ConditionExpression  string
	KeyConditionExpression                 string
	FilterExpression, ProjectionExpression string
	ExpressionAttributeNames               map[string]string
	ExpressionAttributeValues              map[string]map[string]any
	RequestItems                           map[string]json.RawMessage
	TransactItems                          []map[string]request
	PutRequest, DeleteRequest              *request
	ReturnValues, Select                   string
	AttributeUpdates, Expected             map[string]any
	AttributesToGet                        []string
	ScanFilter, KeyConditions, QueryFilter map[string]any
	StreamArn, ShardIterator               string
}

// partActions are the actions of the parts of a transaction.
var partActions = map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem", "Get": "GetItem"}

// calls are what IAM is asked about a request: a transaction's parts, a batch's tables.
func (r request) calls(operation string, at Place) []iamCall {
	switch operation {
	case "TransactWriteItems", "TransactGetItems":
		var calls []iamCall
		for _, item := range r.TransactItems {
			for part, what := range item {
				c := what.call(partActions[part], at)
				c.Context["dynamodb:EnclosingOperation"] = []string{operation}
				calls = append(calls, c)
			}
		}
		return calls
	case "BatchGetItem", "BatchWriteItem":
		var calls []iamCall
		for table, items := range r.RequestItems {
			calls = append(calls, batchOf(table, items).call(operation, at))
		}
		return calls
	default:
		return []iamCall{r.call(operation, at)}
	}
}

// batchOf is what a batch asks of one table, as one request with many keys.
func batchOf(table string, items json.RawMessage) request {
	all := request{TableName: table, Item: map[string]any{}}
	if json.Unmarshal(items, &all) == nil { // reads
		return all
	}
	var writes []request
	if err := json.Unmarshal(items, &writes); err != nil {
		panic(err)
	}
	for _, w := range writes {
		for _, what := range []*request{w.PutRequest, w.DeleteRequest} {
			if what == nil {
				continue
			}
			all.Keys = append(all.Keys, what.Key, what.Item)
			maps.Copy(all.Item, what.Item)
		}
	}
	return all
}

func (r request) call(operation string, at Place) iamCall {
	arn := "arn:" + at.Partition + ":dynamodb:" + at.Region + ":" + at.Account + ":table/" + r.TableName
	if r.IndexName != "" {
		arn += "/index/" + r.IndexName
	}
	if stream := r.StreamArn + r.ShardIterator; stream != "" { // an iterator begins with the ARN
		stream, _, _ = strings.Cut(stream, "|")
		_, stream, _ = strings.Cut(stream, ":table/")
		arn += stream
	}
	c := iamCall{Action: "dynamodb:" + operation, Resource: arn, Context: map[string][]string{}}
	if keys := r.leadingKeys(); len(keys) > 0 {
		c.Context[leadingKeys] = keys
	}
	if names := r.attributes(); len(names) > 0 {
		c.Context[attributes] = names
	}
	for key, value := range map[string]string{"dynamodb:ReturnValues": r.ReturnValues, "dynamodb:Select": r.Select} {
		if value != "" {
			c.Context[key] = []string{value}
		}
	}
	return c
}

// leadingKeys are the partition keys that a request names.
func (r request) leadingKeys() []string {
	var keys []string
	for _, item := range append([]map[string]any{r.Key, r.Item}, r.Keys...) {
		if pk, ok := item["PK"].(map[string]any); ok {
			keys = append(keys, pk["S"].(string))
		}
	}
	if r.KeyConditionExpression != "" {
		for name, value := range equalities(r.KeyConditionExpression) {
			if named, ok := r.ExpressionAttributeNames[name]; ok {
				name = named
			}
			if strings.HasSuffix(name, "PK") {
				keys = append(keys, r.ExpressionAttributeValues[value]["S"].(string))
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

var equality = regexp.MustCompile(`([#\w]+) = (:\w+)`)

func equalities(expression string) map[string]string {
	found := map[string]string{}
	for _, m := range equality.FindAllStringSubmatch(expression, -1) {
		found[m[1]] = m[2]
	}
	return found
}

// word is a name in an expression: neither a placeholder of a value nor a function.
var word = regexp.MustCompile(`[:#]?[A-Za-z_]\w*|#\d+`)

// keywords of expressions.
var keywords = strings.Fields("SET ADD REMOVE DELETE AND OR NOT IN BETWEEN attribute_exists attribute_not_exists attribute_type begins_with contains size list_append if_not_exists")

// attributes are all top-level attributes that a request names: in its item, its key, and
// every expression, conditions among them.
func (r request) attributes() []string {
	var names []string
	for _, m := range append([]map[string]any{r.Key, r.Item, r.AttributeUpdates, r.Expected, r.ScanFilter, r.KeyConditions, r.QueryFilter}, r.Keys...) {
		names = append(names, slices.Collect(maps.Keys(m))...)
	}
	names = append(names, r.AttributesToGet...)
	for _, expression := range []string{r.UpdateExpression, r.ConditionExpression, r.KeyConditionExpression, r.FilterExpression, r.ProjectionExpression} {
		for _, name := range word.FindAllString(expression, -1) {
			if named, ok := r.ExpressionAttributeNames[name]; ok {
				names = append(names, named)
			} else if name[0] != ':' && !slices.Contains(keywords, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
