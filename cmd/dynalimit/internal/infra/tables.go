package infra

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
)

// Table is a table to deploy.
type Table struct {
	// ID begins the names of everything that is made for it.
	ID string
	// About says what is in it.
	About string
	// Input is what the library would create.
	Input *dynamodb.CreateTableInput
	// TTL is the attribute by which items expire.
	TTL string
}

// The tables' ids.
const (
	limitsTable  = "Limits"
	controlTable = "BudgetControl"
	usageTable   = "BudgetUsage"
)

// tables are those of a deployment, as the library describes them.
func tables(o Options) ([]Table, error) {
	client := dynamodb.New(dynamodb.Options{Region: "us-east-1"}) // asked nothing
	name := o.Table
	if name == "" {
		name = "limits"
	}
	if strings.HasPrefix(name, "arn:") {
		return nil, &OptionError{"table", fmt.Sprintf("is an ARN, %q; give the table's name", name)}
	}
	repo, err := dynalimit.NewRepository(client, name, &dynalimit.RepositoryOptions{Namespace: o.Namespace})
	if err != nil {
		return nil, err
	}
	all := []Table{{ID: limitsTable, About: "Limits, buckets, entities and their history", Input: withStream(repo.TableInput()), TTL: "ttl"}}
	if o.Budget == nil {
		return all, nil
	}
	inputs, err := budget.Tables{Control: o.Budget.Control, Usage: o.Budget.Usage}.TableInputs()
	if err != nil {
		return nil, err
	}
	if o.Budget.Control == name || o.Budget.Usage == name {
		return nil, &OptionError{"control and --usage", fmt.Sprintf("name the limiter's table, %q; name others", name)}
	}
	return append(all,
		Table{ID: controlTable, About: "Budgets: organisations, apps, prices and who changed them", Input: withStream(inputs[0]), TTL: budget.TTLAttribute},
		Table{ID: usageTable, About: "Budgets: what was spent", Input: withStream(inputs[1]), TTL: budget.TTLAttribute},
	), nil
}

// withStream is a table that streams its changes, whatever the library makes.
func withStream(in *dynamodb.CreateTableInput) *dynamodb.CreateTableInput {
	in.StreamSpecification = &types.StreamSpecification{StreamEnabled: new(true), StreamViewType: types.StreamViewTypeNewAndOldImages}
	return in
}
