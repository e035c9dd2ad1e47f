package leanddb

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// item is a body with every type of value.
const item = `{"PK":{"S":"ENTITY#a"},"n":{"N":"-12.5"},"b":{"B":"AAECAw=="},"t":{"BOOL":true},"f":{"BOOL":false},"z":{"NULL":true},` +
	`"ss":{"SS":["x","y"]},"ns":{"NS":["1"]},"bs":{"BS":["AA==",""]},"l":{"L":[{"N":"1"},{"M":{"k":{"S":"v"}}},{"L":[]}]},"m":{"M":{}},"e":{"S":""}}`

// answerCases are answers with their header. lean reports whether this package decodes the answer.
var answerCases = map[string]struct {
	outcome
	lean bool
}{
	"success":                {outcome{status: 200, body: `{"Attributes":` + item + `}`}, true},
	"spaces":                 {outcome{status: 200, body: " {\n \"Attributes\" :\t{ \"a\" : { \"N\" : \"1\" } , \"b\":{\"L\":[ {\"N\":\"1\"} , {\"BOOL\": true } ]} } }\r\n"}, true},
	"empty item":             {outcome{status: 200, body: `{"Attributes":{}}`}, true},
	"no item":                {outcome{status: 200, body: `{}`}, true},
	"a name twice":           {outcome{status: 200, body: `{"Attributes":{"a":{"N":"1"},"a":{"N":"2"}}}`}, true},
	"escapes":                {outcome{status: 200, body: `{"Attributes":{"a\u0062":{"S":"\"\n\ud83d\ude00"}}}`}, false},
	"not ASCII":              {outcome{status: 200, body: `{"Attributes":{"a":{"S":"é"}}}`}, false},
	"capacity":               {outcome{status: 200, body: `{"ConsumedCapacity":{"TableName":"t","CapacityUnits":1}}`}, false},
	"null":                   {outcome{status: 200, body: `{"Attributes":null}`}, false},
	"null value":             {outcome{status: 200, body: `{"Attributes":{"a":null}}`}, false},
	"two types":              {outcome{status: 200, body: `{"Attributes":{"a":{"S":"x","N":"1"}}}`}, false},
	"no type":                {outcome{status: 200, body: `{"Attributes":{"a":{}}}`}, false},
	"new type":               {outcome{status: 200, body: `{"Attributes":{"a":{"V":"x"}}}`}, false},
	"number without quotes":  {outcome{status: 200, body: `{"Attributes":{"a":{"N":1}}}`}, false},
	"broken base64":          {outcome{status: 200, body: `{"Attributes":{"a":{"B":"AAE"}}}`}, false},
	"rest":                   {outcome{status: 200, body: `{"Attributes":{}} x`}, false},
	"empty":                  {outcome{status: 200}, false},
	"HTML":                   {outcome{status: 200, body: `<html>`}, false},
	"half":                   {outcome{status: 200, body: `{"Attributes":{"a":{"N":"1`}, false},
	"list":                   {outcome{status: 200, body: `[]`}, false},
	"cut":                    {outcome{status: 200, body: `{"Attributes":{"a":{"N":"1`, cut: true}, false},
	"cut at the end":         {outcome{status: 200, body: `{"Attributes":{}}`, cut: true}, false},
	"right checksum":         {outcome{status: 200, body: `{"Attributes":` + item + `}`, header: checksum(`{"Attributes":` + item + `}`)}, true},
	"wrong checksum":         {outcome{status: 200, body: `{"Attributes":{}}`, header: map[string]string{"X-Amz-Crc32": "1"}}, false},
	"checksum without sense": {outcome{status: 200, body: `{"Attributes":{}}`, header: map[string]string{"X-Amz-Crc32": "one"}}, false},
	"compressed":             {outcome{status: 200, body: `{"Attributes":{}}`, header: map[string]string{"Content-Encoding": "gzip"}}, false},
	"other success":          {outcome{status: 201, body: `{"Attributes":{}}`}, false},
	"redirect":               {outcome{status: 302}, false},
	"failed condition":       {outcome{status: 400, body: `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed","Item":` + item + `}`}, true},
	"failed, no item":        {outcome{status: 400, body: `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","Message":"The conditional request failed"}`}, true},
	"failed, no message":     {outcome{status: 400, body: `{"__type":"#ConditionalCheckFailedException"}`}, true},
	"failed, more":           {outcome{status: 400, body: `{"__type":"x#ConditionalCheckFailedException","more":1}`}, false},
	"failed, no space":       {outcome{status: 400, body: `{"__type":"ConditionalCheckFailedException","message":"m"}`}, true},
	"failed, in the header":  {outcome{status: 400, body: `{"message":"m"}`, header: map[string]string{"X-Amzn-ErrorType": "ConditionalCheckFailedException"}}, false},
	"other code in header":   {outcome{status: 400, body: `{"__type":"x#ConditionalCheckFailedException"}`, header: map[string]string{"X-Amzn-ErrorType": "ThrottlingException"}}, false},
	"failed, other status":   {outcome{status: 500, body: `{"__type":"x#ConditionalCheckFailedException"}`}, false},
	"failed, as success":     {outcome{status: 200, body: `{"__type":"x#ConditionalCheckFailedException"}`}, false},
	"throttled":              {outcome{status: 400, body: `{"__type":"x#ProvisionedThroughputExceededException","message":"slow down"}`}, false},
	"invalid":                {outcome{status: 400, body: `{"__type":"com.amazon.coral.validate#ValidationException","message":"no"}`}, false},
	"conflict":               {outcome{status: 400, body: `{"__type":"x#TransactionConflictException","message":"busy"}`}, false},
	"server error":           {outcome{status: 500, body: `{"__type":"x#InternalServerError","message":"oh"}`}, false},
	"proxy":                  {outcome{status: 502, body: `<html>bad gateway</html>`}, false},
	"bad signature":          {outcome{status: 400, body: `{"__type":"x#InvalidSignatureException","message":"no"}`, header: map[string]string{"Date": "Mon, 30 Nov 2026 07:00:00 GMT"}}, false},
	"connection":             {outcome{err: errors.New("connection reset")}, false},
	"timeout":                {outcome{err: context.DeadlineExceeded}, false},
}

func checksum(body string) map[string]string {
	return map[string]string{"X-Amz-Crc32": strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10)}
}

// told is what a caller learns of a call, and what it cost. Failed is the error of a failed condition, with
// its item.
type told struct {
	Attributes, Failed any
	Errors             []string
	Requests           int
}

func toldOf(out *dynamodb.UpdateItemOutput, err error) told {
	t := told{Errors: chainOf(err)}
	if out != nil {
		t.Attributes = out.Attributes
	}
	if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) {
		t.Failed = failed
	}
	return t
}

// tellOf makes a call, and returns what it told.
func tellOf(ctx context.Context, update func(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error), s *script) told {
	out, err := update(ctx, plainUpdate())
	t := toldOf(out, err)
	t.Requests = len(s.sent)
	return t
}

// chainOf lists types and texts of an error and those below it.
func chainOf(err error) (chain []string) {
	for err != nil {
		chain = append(chain, fmt.Sprintf("%T %v", err, err))
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				chain = append(chain, chainOf(e)...)
			}
			return chain
		}
		err = errors.Unwrap(err)
	}
	return chain
}

// requireSameAnswers makes a call with both clients, whose first request gets o and whose others get
// an empty success.
func requireSameAnswers(t require.TestingT, ctx context.Context, o outcome) (bySDK int) { //nolint:revive // as in testify
	options := newOptions(nil)
	lean, leanSent := newLean(t, options)
	leanSent.outcomes = []outcome{o, emptySuccess}
	sdkSent := &script{outcomes: []outcome{o, emptySuccess}}
	options.HTTPClient = sdkSent
	want := tellOf(ctx, dynamodb.New(options).UpdateItem, sdkSent)
	got := tellOf(ctx, lean.UpdateItem, leanSent)
	require.Equal(t, want, got)
	for i, r := range leanSent.sent {
		require.Equal(t, i > 0 || ctx.Err() != nil, r.bySDK)
	}
	return len(leanSent.sent)
}

func TestAnswersAreTheSDKs(t *testing.T) {
	for name, test := range answerCases {
		t.Run(name, func(t *testing.T) {
			requireSameAnswers(t, t.Context(), test.outcome)
			w, a := &workspace{}, &attempt{}
			s := &script{outcomes: []outcome{test.outcome}}
			a.response, a.err = s.Do(httptestRequest()) //nolint:bodyclose // it is in memory
			lean := a.err == nil && a.readAnswer(w)
			if lean {
				_, success := decodeUpdate(w.answer)
				_, failed := decodeFailedCondition(w.answer)
				lean = success && a.response.StatusCode == http.StatusOK || failed && a.response.StatusCode == http.StatusBadRequest
			}
			assert.Equal(t, test.lean, lean)
		})
	}
}

func FuzzAnswers(f *testing.F) {
	for _, test := range answerCases {
		if test.err == nil {
			f.Add(test.status, test.body, test.header["X-Amzn-ErrorType"], test.header["X-Amz-Crc32"], test.cut)
		}
	}
	f.Fuzz(func(t *testing.T, status int, body, code, sum string, cut bool) {
		requireSameAnswers(t, background, outcome{status: status, body: body, cut: cut, header: map[string]string{"X-Amzn-ErrorType": code, "X-Amz-Crc32": sum}})
	})
}
