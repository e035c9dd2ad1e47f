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

// Plan is a table as the library makes it.
type Plan struct {
	// Input is what the library asks for.
	Input *dynamodb.CreateTableInput
	// TTL is the attribute by which items expire.
	TTL string
	// Make makes it with a client, waits for it and enables TTL; a table that is there is
	// completed.
	Make func(context.Context, Client) error
	// Layout checks and completes what a table of limits says about its own layout; nil
	// for tables that say nothing.
	Layout *dynalimit.Repository
	// Flags are what has to follow commands to be about it.
	Flags Flags
}

// Name is the table's.
func (p Plan) Name() string { return aws.ToString(p.Input.TableName) }

// Look says how a table stands. It fails where something could not be read, unless the
// engine does not know it or a permission is missing for what is not needed.
func Look(ctx context.Context, client Client, p Plan) (State, error) {
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: p.Input.TableName})
	if missing(err) {
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

// readTags reads the tags, where they may be read.
func (s *State) readTags(ctx context.Context, client Client) error {
	if !s.There() || s.Status == string(types.TableStatusCreating) {
		return nil // nothing more can be asked
	}
	in := &dynamodb.ListTagsOfResourceInput{ResourceArn: &s.ARN}
	for {
		out, err := client.ListTagsOfResource(ctx, in)
		switch {
		case Unknown(err) || Denied(err):
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
