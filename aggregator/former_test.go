package aggregator_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestFailedLoginsOfBeforeAreNoUsage: earlier versions counted failed logins among users'
// entities. Their records are not counted any more, and no reader has what was counted.
func TestFailedLoginsOfBeforeAreNoUsage(t *testing.T) {
	o := newOffice(t, noon, nil)
	const address = "login-address:203.0.113.7"
	assert.Equal(t, 1, process(t, o.p, recordOfWhom(1, noon, address, "login")).Ignored)
	process(t, o.p, recordOfWhom(2, noon, "a", "gpt-4"), recordOfWhom(3, noon, "a", "login"))
	store := o.db.Client()
	out, err := store.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("limits"), Key: schema.Keys{}.Usage("a", "login", noon).Attributes()})
	require.NoError(t, err)
	item := schema.Keys{}.Usage(address, "login", noon).Attributes()
	for name, value := range out.Item {
		switch {
		case item[name] != nil:
		case len(name) > 5 && name[:5] == "u_rpm":
			item["u_failed_logins"+name[5:]] = value
		default:
			item[name] = value
		}
	}
	item["entity_id"] = &types.AttributeValueMemberS{Value: address}
	item[schema.GSI3SK] = item[schema.PK]
	_, err = store.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("limits"), Item: item})
	require.NoError(t, err)
	for i, name := range []string{"open", "closed", "final"} {
		t.Run(name, func(t *testing.T) {
			o.now = noon.Add(time.Minute)
			if i > 0 {
				o.close(noon.Add([]time.Duration{0, 16 * time.Hour, 60 * time.Hour}[i]))
			}
			for _, window := range []aggregator.Window{aggregator.Hour, aggregator.Day} {
				r := reading(t, o.db, o.now, aggregator.ReaderOptions{})
				q := aggregator.Query{From: noon, To: noon.Add(time.Hour), Window: window}
				assert.Empty(t, all(t, r.Entity(t.Context(), address, q)))
				used, err := r.Used(t.Context(), q)
				require.NoError(t, err)
				assert.Equal(t, []aggregator.Used{{Resource: "gpt-4", Entity: "a"}, {Resource: "login", Entity: "a"}}, used)
				entities := all(t, r.Entities(t.Context(), q))
				require.Len(t, entities, 2)
				for _, u := range entities {
					assert.Equal(t, "a", u.Entity)
				}
				logins := all(t, r.Resource(t.Context(), "login", q))
				require.Len(t, logins, 1)
				assert.Equal(t, []aggregator.LimitUsage{{Limit: "rpm", Consumed: 1000}}, logins[0].Limits, "a user's own")
			}
		})
	}
}
