package tables

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
)

// Plan is a table with the library's definition.
type Plan struct {
	// Input is the library's input.
	Input *dynamodb.CreateTableInput
	// TTL is the attribute with the expiry of items.
	TTL string
	// Make creates the table with a client, waits for it and enables TTL. It completes an
	// existing table.
	Make func(context.Context, Client) error
	// Layout checks and completes the version record of a table of limits. It is nil for tables
	// without one.
	Layout *dynalimit.Repository
	// Flags are the flags that direct commands at the table.
	Flags Flags
}

// Name returns the table's name.
func (p Plan) Name() string { return aws.ToString(p.Input.TableName) }

// Look reads the description and settings of a table and returns its state with tags and with the findings that
// are not OK. For a missing table it returns the finding NoTable and no error. A failed read is an error,
// unless the engine does not know it or its permission is optional.
func Look(ctx context.Context, client Client, p Plan) (State, error) {
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: p.Input.TableName})
	if isMissing(err) {
		return State{Name: p.Name(), Findings: []Finding{p.NoTable()}}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("describe the table %s: %w", p.Name(), err)
	}
	s := Check(ctx, client, p, out.Table, error.Error)
	if len(s.failures) > 0 {
		return State{}, s.failures[0]
	}
	s.Findings = slices.DeleteFunc(s.Findings, func(f Finding) bool { return f.Status == OK })
	return s, s.readTags(ctx, client)
}

// readTags requests the table's tags and sets s.Tags. They stay nil without tags, for a table being created,
// and if the engine does not know tags or denies the request.
func (s *State) readTags(ctx context.Context, client Client) error {
	if !s.Exists() || s.Status == string(types.TableStatusCreating) {
		return nil // no further request is possible
	}
	in := &dynamodb.ListTagsOfResourceInput{ResourceArn: &s.ARN}
	for {
		out, err := client.ListTagsOfResource(ctx, in)
		switch {
		case IsUnknown(err) || IsDenied(err):
			return nil
		case err != nil:
			return fmt.Errorf("list the tags of %s: %w", s.Name, err)
		}
		for _, tag := range out.Tags {
			if s.Tags == nil {
				s.Tags = map[string]string{}
			}
			s.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return nil
		}
	}
}
