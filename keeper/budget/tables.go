package budget

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// validate returns a *fault.ValidationError for an invalid table name, or for two equal ones.
func (t Tables) validate() error {
	if reason := ddb.CheckTable(t.Control); reason != "" {
		return invalid("tables.control", "%s", reason)
	}
	if reason := ddb.CheckTable(t.Usage); reason != "" {
		return invalid("tables.usage", "%s", reason)
	}
	if t.Control == t.Usage {
		return invalid("tables", "are both %q; name two tables: configuration is listed by scanning its own", t.Control)
	}
	return nil
}

// TTLAttribute is the attribute with the expiry of items in both tables, in unix seconds.
const TTLAttribute = store.AttrTTL

// TableInputs describes the two tables, control before usage, for CreateTable and for
// infrastructure code. Enable TTL on TTLAttribute as well. It returns a *fault.ValidationError
// for names that DynamoDB would refuse.
func (t Tables) TableInputs() ([]*dynamodb.CreateTableInput, error) {
	if err := t.validate(); err != nil {
		return nil, err
	}
	return t.createInputs(), nil
}

// createInputs returns the requests that create the control table and the usage table, each with the keys PK
// and SK, billed by request. They do not turn on the time to live.
func (t Tables) createInputs() []*dynamodb.CreateTableInput {
	inputs := make([]*dynamodb.CreateTableInput, 0, 2)
	for _, name := range []string{t.Control, t.Usage} {
		inputs = append(inputs, &dynamodb.CreateTableInput{
			TableName:   aws.String(name),
			BillingMode: types.BillingModePayPerRequest,
			KeySchema: []types.KeySchemaElement{
				{AttributeName: aws.String("PK"), KeyType: types.KeyTypeHash},
				{AttributeName: aws.String("SK"), KeyType: types.KeyTypeRange},
			},
			AttributeDefinitions: []types.AttributeDefinition{
				{AttributeName: aws.String("PK"), AttributeType: types.ScalarAttributeTypeS},
				{AttributeName: aws.String("SK"), AttributeType: types.ScalarAttributeTypeS},
			},
		})
	}
	return inputs
}

// enableTTL turns on the expiry of a table's items by the attribute ttl_epoch. If an expiry is on or being
// turned on, by any attribute, it changes nothing.
func enableTTL(ctx context.Context, client Client, name string) error {
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return err
	}
	if d := out.TimeToLiveDescription; d != nil &&
		(d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		return nil
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(store.AttrTTL), Enabled: aws.Bool(true),
		},
	})
	return err
}

// breakers track whether the tables answer.
type breakers struct{ control, usage *ddb.Breaker }
