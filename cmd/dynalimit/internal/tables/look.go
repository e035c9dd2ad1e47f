package tables

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/schema"
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
}

// Name is the table's.
func (p Plan) Name() string { return aws.ToString(p.Input.TableName) }

// Look says how a table stands.
func Look(ctx context.Context, client Client, p Plan) (State, error) {
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: p.Input.TableName})
	if missing(err) {
		s := describe(p.Name(), nil)
		s.Lacks = []string{"there is no such table here: make it with 'dynalimit table create', or name yours with --table and --region"}
		return s, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("describe the table %s: %w", p.Name(), err)
	}
	s := describe(p.Name(), out.Table)
	s.Lacks, s.foreign = lacks(out.Table, p.Input), keys(out.Table.KeySchema) != keys(p.Input.KeySchema)
	if s.Status == string(types.TableStatusCreating) || !s.There() {
		return s, nil // nothing more can be asked
	}
	for _, look := range []func(context.Context, Client, Plan, *State) error{lookTTL, lookRecovery, lookTags, lookLayout} {
		if err := look(ctx, client, p, &s); err != nil {
			return State{}, err
		}
	}
	s.Ready = len(s.Lacks) == 0
	remark(&s)
	return s, nil
}

func lookTTL(ctx context.Context, client Client, p Plan, s *State) error {
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: p.Input.TableName})
	if err != nil {
		return fmt.Errorf("describe the TTL of %s: %w", p.Name(), err)
	}
	d := out.TimeToLiveDescription
	if d != nil && (d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		s.TTL = aws.ToString(d.AttributeName)
	}
	switch s.TTL {
	case p.TTL:
	case "":
		s.Lacks = append(s.Lacks, "TTL is off: enable it with 'dynalimit table create'")
	default:
		s.Lacks = append(s.Lacks, fmt.Sprintf("TTL is on the attribute %s, not %s: disable it, then 'dynalimit table create'", s.TTL, p.TTL))
	}
	return nil
}

func lookRecovery(ctx context.Context, client Client, p Plan, s *State) error {
	out, err := client.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: p.Input.TableName})
	switch {
	case Unknown(err) || Denied(err):
		s.Recovery = Unclear
		return nil
	case err != nil:
		return fmt.Errorf("describe the backups of %s: %w", p.Name(), err)
	}
	s.Recovery = No
	if d := out.ContinuousBackupsDescription; d != nil && d.PointInTimeRecoveryDescription != nil {
		s.Recovery = on(d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled)
		s.Earliest = utc(d.PointInTimeRecoveryDescription.EarliestRestorableDateTime)
	}
	return nil
}

func lookTags(ctx context.Context, client Client, p Plan, s *State) error {
	in := &dynamodb.ListTagsOfResourceInput{ResourceArn: &s.ARN}
	for {
		out, err := client.ListTagsOfResource(ctx, in)
		switch {
		case Unknown(err) || Denied(err):
			return nil
		case err != nil:
			return fmt.Errorf("list the tags of %s: %w", p.Name(), err)
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

func lookLayout(ctx context.Context, client Client, p Plan, s *State) error {
	if p.Layout == nil || s.foreign {
		return nil
	}
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: p.Input.TableName, Key: schema.Keys{}.Version().Attributes(), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return fmt.Errorf("read the version record of %s: %w", p.Name(), err)
	}
	record, ok := schema.DecodeVersion(out.Item)
	s.Layout, s.CompositeOnly = record.Schema, record.CompositeOnly
	// The library judges the record, and none, whenever it reads configuration.
	_, err = p.Layout.ResolveLimits(ctx, "status", "status")
	if old, is := errors.AsType[*dynalimit.VersionError](err); is {
		s.Lacks = append(s.Lacks, old.Error())
	} else if !ok {
		s.Lacks = append(s.Lacks, "it has no version record: write it with 'dynalimit table create'")
	}
	return nil
}

// remark says what production should have besides.
func remark(s *State) {
	say := func(yes bool, text string) {
		if yes {
			s.Remarks = append(s.Remarks, text)
		}
	}
	say(s.Recovery == No, "point-in-time recovery is off: 'dynalimit table create' turns it on")
	say(s.Protection == No, "deletion protection is off: 'dynalimit table create' turns it on")
	say(s.Stream == "", "it has no stream: 'dynalimit table create' opens one")
	say(s.Stream != "" && s.Stream != string(types.StreamViewTypeNewAndOldImages), "its stream shows "+s.Stream+", not "+string(types.StreamViewTypeNewAndOldImages)+": close it, then 'dynalimit table create'")
	say(s.Layout != "" && !s.CompositeOnly, "items of an older layout are looked for, which costs queries: 'dynalimit migrate' ends that")
}
