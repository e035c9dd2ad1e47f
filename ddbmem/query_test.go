package ddbmem_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
)

// retried lets reads be repeated: a server on loopback may answer before the SDK's
// transport sees the end of the request's body, which breaks a connection that
// still carries a long answer.
func retried(o *dynamodb.Options) { o.RetryMaxAttempts = 5 }

// pages are the sort keys a query finds, page by page.
func pages(t *testing.T, e engine, in dynamodb.QueryInput) (found string, n int) {
	t.Helper()
	var list []string
	for n = 1; ; n++ {
		out, err := e.client.Query(t.Context(), &in, retried)
		require.NoError(t, err)
		for _, it := range out.Items {
			list = append(list, it["SK"].(*types.AttributeValueMemberS).Value)
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return strings.Join(list, " "), n
		}
		require.Less(t, n, 50, "endless pages")
	}
}

func TestQueryConditions(t *testing.T) {
	tests := []struct{ condition, low, high, want string }{
		{"PK = :p", "", "", "a1 a2 b1 b2 c1"},
		{"PK = :p AND SK = :l", "b1", "", "b1"},
		{"PK = :p AND SK < :l", "b1", "", "a1 a2"},
		{"PK = :p AND SK <= :l", "b1", "", "a1 a2 b1"},
		{"PK = :p AND SK > :l", "b1", "", "b2 c1"},
		{"PK = :p AND SK >= :l", "b1", "", "b1 b2 c1"},
		{"SK >= :l AND PK = :p", "b", "", "b1 b2 c1"},
		{"PK = :p AND SK BETWEEN :l AND :h", "a2", "b9", "a2 b1 b2"},
		{"PK = :p AND begins_with(SK, :l)", "b", "", "b1 b2"},
		{"PK = :p AND begins_with(SK, :l)", "z", "", ""},
		{"PK = :p AND SK = :l", "zz", "", ""},
	}
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, true)
		for _, sk := range []string{"b2", "a1", "c1", "b1", "a2"} {
			put(t, e, table, item{"PK": str("p"), "SK": str(sk)})
		}
		for _, tt := range tests {
			for _, backward := range []bool{false, true} {
				for limit := range 4 {
					in := dynamodb.QueryInput{TableName: table, KeyConditionExpression: &tt.condition, ExpressionAttributeValues: item{":p": str("p")}, ScanIndexForward: aws.Bool(!backward)}
					if limit > 0 {
						in.Limit = aws.Int32(int32(limit))
					}
					for p, v := range map[string]string{":l": tt.low, ":h": tt.high} {
						if v != "" {
							in.ExpressionAttributeValues[p] = str(v)
						}
					}
					want := strings.Fields(tt.want)
					if backward {
						for i, j := 0, len(want)-1; i < j; i, j = i+1, j-1 {
							want[i], want[j] = want[j], want[i]
						}
					}
					got, _ := pages(t, e, in)
					require.Equal(t, strings.Join(want, " "), got, "%s %s limit %d backward %v", tt.condition, tt.low, limit, backward)
				}
			}
		}
	})
}

func TestRejectedQueries(t *testing.T) {
	tests := []struct {
		name   string
		change func(*dynamodb.QueryInput)
	}{
		{"no hash key", func(in *dynamodb.QueryInput) { in.KeyConditionExpression = aws.String("SK = :p") }},
		{"hash key not by =", func(in *dynamodb.QueryInput) { in.KeyConditionExpression = aws.String("PK > :p") }},
		{"or", func(in *dynamodb.QueryInput) { in.KeyConditionExpression = aws.String("PK = :p OR SK = :p") }},
		{"other attribute", func(in *dynamodb.QueryInput) { in.KeyConditionExpression = aws.String("PK = :p AND n = :p") }},
		{"no such index", func(in *dynamodb.QueryInput) { in.IndexName = aws.String("nope") }},
		{"consistent index", func(in *dynamodb.QueryInput) {
			in.IndexName, in.ConsistentRead, in.KeyConditionExpression = aws.String("byG"), aws.Bool(true), aws.String("g = :p")
		}},
		{"filter on the key", func(in *dynamodb.QueryInput) { in.FilterExpression = aws.String("SK = :p") }},
		{"projection and select", func(in *dynamodb.QueryInput) {
			in.ProjectionExpression, in.Select = aws.String("n"), types.SelectAllAttributes
		}},
		{"not projected", func(in *dynamodb.QueryInput) {
			in.IndexName, in.KeyConditionExpression, in.ProjectionExpression = aws.String("byG"), aws.String("g = :p"), aws.String("other")
		}},
		{"start key", func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = item{"PK": str("a")} }},
	}
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, true, withIndex)
		for _, tt := range tests {
			in := dynamodb.QueryInput{TableName: table, KeyConditionExpression: aws.String("PK = :p"), ExpressionAttributeValues: item{":p": str("p")}}
			tt.change(&in)
			_, err := e.client.Query(t.Context(), &in)
			require.Error(t, err, tt.name)
			wantCode(t, "ValidationException", err)
		}
	})
}

// The engine finds nothing under a key of another type; DynamoDB refuses it.
func TestQueryForAKeyOfAnotherType(t *testing.T) {
	onDDBMem(t, func(t *testing.T, e engine) {
		table := e.table(t, true)
		in := dynamodb.QueryInput{TableName: table, KeyConditionExpression: aws.String("PK = :p"), ExpressionAttributeValues: item{":p": num(1)}}
		_, err := e.client.Query(t.Context(), &in)
		require.Contains(t, wantCode(t, "ValidationException", err), "does not match schema type")
	})
}

func TestPagesEndAtOneMegabyte(t *testing.T) {
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, true)
		for i := range 6 {
			put(t, e, table, item{"PK": str("p"), "SK": str(fmt.Sprint(i)), "v": str(strings.Repeat("x", 300<<10))})
		}
		got, n := pages(t, e, dynamodb.QueryInput{TableName: table, KeyConditionExpression: aws.String("PK = :p"), ExpressionAttributeValues: item{":p": str("p")}})
		require.Equal(t, "0 1 2 3 4 5", got)
		require.Equal(t, 2, n)
	})
}

func TestScan(t *testing.T) {
	conform(t, func(t *testing.T, e engine) {
		table := e.table(t, true, withIndex)
		for i := range 40 {
			put(t, e, table, item{"PK": str(fmt.Sprint(i % 20)), "SK": str(fmt.Sprint(i)), "n": num(int64(i)), "g": str("G"), "h": num(1)})
		}
		for _, segments := range []int32{0, 1, 3} {
			seen := map[string]int{}
			for segment := range max(segments, 1) {
				in := &dynamodb.ScanInput{TableName: table, Limit: aws.Int32(7), FilterExpression: aws.String("n >= :n"), ExpressionAttributeValues: item{":n": num(10)}}
				if segments > 0 {
					in.Segment, in.TotalSegments = aws.Int32(segment), aws.Int32(segments)
				}
				for page := 0; ; page++ {
					out, err := e.client.Scan(t.Context(), in)
					require.NoError(t, err)
					require.LessOrEqual(t, out.ScannedCount, int32(7))
					for _, it := range out.Items {
						seen[showItem(it)]++
					}
					if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
						break
					}
					require.Less(t, page, 50, "endless pages")
				}
			}
			require.Len(t, seen, 30, "%d segments", segments)
			for it, n := range seen {
				require.Equal(t, 1, n, it)
			}
		}
		out, err := e.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: table, IndexName: aws.String("byG"), Select: types.SelectCount})
		require.NoError(t, err)
		require.EqualValues(t, 40, out.Count)
		_, err = e.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: table, Segment: aws.Int32(3), TotalSegments: aws.Int32(3)})
		wantCode(t, "ValidationException", err)
	})
}

// showItem is an item as text, with names and sets in order.
func showItem(it item) string {
	parts := make([]string, 0, len(it))
	for _, name := range slices.Sorted(maps.Keys(it)) {
		parts = append(parts, name+"="+showValue(it[name]))
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func showItems(items []item) string {
	parts := make([]string, len(items))
	for i, it := range items {
		parts[i] = showItem(it)
	}
	return strings.Join(parts, " ")
}

func showValue(v av) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return fmt.Sprintf("%q", v.Value)
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberB:
		return fmt.Sprintf("0x%x", v.Value)
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprint(v.Value)
	case *types.AttributeValueMemberNULL:
		return "null"
	case *types.AttributeValueMemberSS:
		return fmt.Sprintf("ss%q", slices.Sorted(slices.Values(v.Value)))
	case *types.AttributeValueMemberNS:
		return fmt.Sprintf("ns%q", slices.Sorted(slices.Values(v.Value)))
	case *types.AttributeValueMemberBS:
		parts := make([]string, len(v.Value))
		for i, b := range v.Value {
			parts[i] = fmt.Sprintf("%x", b)
		}
		slices.Sort(parts)
		return fmt.Sprintf("bs%q", parts)
	case *types.AttributeValueMemberL:
		parts := make([]string, len(v.Value))
		for i, e := range v.Value {
			parts[i] = showValue(e)
		}
		return "[" + strings.Join(parts, " ") + "]"
	case *types.AttributeValueMemberM:
		return showItem(v.Value)
	}
	return fmt.Sprintf("%T", v)
}
