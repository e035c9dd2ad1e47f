package tables

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// poll is the time between two looks at a table that is being changed.
	poll = 2 * time.Second
	// patience bounds how long one change of a table may take.
	patience = 10 * time.Minute
)

// Result is what was made of a table.
type Result struct {
	Table string `json:"table"`
	// Steps are what it lacked; none if it was as it should be.
	Steps  []Step `json:"steps"`
	DryRun bool   `json:"dry_run"`
	State  State  `json:"state"`
}

// Create makes a table as it is to be, or completes one; report is told what
// the table is doing meanwhile. A dry run only says what it lacks. After an error the result
// says what was done, and it can be called again.
func Create(ctx context.Context, client Client, p Plan, want Settings, dryRun bool, report func(string)) (Result, error) {
	r := Result{Table: p.Name(), Steps: []Step{}, DryRun: dryRun}
	var err error
	if r.State, err = Look(ctx, client, p); err != nil {
		return r, err
	}
	if want.Existing && !r.State.There() {
		return r, fmt.Errorf("there is no table %s here, and --existing makes none: wait until it is restored, or name yours with --table and --region", p.Name())
	}
	empty, err := isEmpty(ctx, client, p, r.State)
	if err != nil {
		return r, err
	}
	if steps := Steps(r.State, p, want, empty); len(steps) > 0 {
		r.Steps = steps
	}
	if dryRun || len(r.Steps) == 0 {
		return r, nil
	}
	if err := carryOut(ctx, client, p, want, report, r.Steps); err != nil {
		return r, err
	}
	r.State, err = Look(ctx, client, p)
	return r, err
}

// carryOut does the steps, and notes which are done.
func carryOut(ctx context.Context, client Client, p Plan, want Settings, report func(string), steps []Step) error {
	made := &maker{Client: client, want: want, report: report, plan: p}
	switch err := p.Make(ctx, made); {
	case Unknown(err) && want.KMSKey != "":
		return fmt.Errorf("%w; leave --kms-key out with this engine", err)
	case err != nil:
		return err
	}
	now, err := Look(ctx, client, p)
	if err != nil {
		return err
	}
	for i := range steps {
		if err := made.complete(ctx, &steps[i], now); err != nil {
			return fmt.Errorf("%s: %s: %w; the steps before it are done, run the command again", p.Name(), steps[i].About, err)
		}
	}
	return nil
}

// isEmpty reports whether a table holds nothing but its version record.
func isEmpty(ctx context.Context, client Client, p Plan, s State) (bool, error) {
	if p.Layout == nil || !s.There() || s.CompositeOnly || s.foreign {
		return false, nil
	}
	out, err := client.Scan(ctx, &dynamodb.ScanInput{TableName: p.Input.TableName, Limit: aws.Int32(2), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return false, fmt.Errorf("look whether %s is empty: %w", p.Name(), err)
	}
	for _, item := range out.Items {
		if schema.KeyOf(item) != schema.VersionKey() {
			return false, nil
		}
	}
	return true, nil
}

// maker is a client whose tables have the settings from the start, and that tells how far
// they are.
type maker struct {
	Client
	want   Settings
	plan   Plan
	report func(string)
	told   string
}

// CreateTable adds the settings to what the library asks for.
func (m *maker) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	with := *in
	if m.want.Protection {
		with.DeletionProtectionEnabled = aws.Bool(true)
	}
	if m.want.Stream {
		with.StreamSpecification = newAndOld()
	} else {
		with.StreamSpecification = nil
	}
	if m.want.KMSKey != "" {
		with.SSESpecification = encryption(m.want.KMSKey)
	}
	with.Tags = tagList(m.want.Tags)
	return m.Client.CreateTable(ctx, &with, opts...)
}

// DescribeTable tells what the table is doing.
func (m *maker) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := m.Client.DescribeTable(ctx, in, opts...)
	if err != nil {
		return out, err
	}
	ready := 0
	for _, x := range out.Table.GlobalSecondaryIndexes {
		if usable(x.IndexStatus) {
			ready++
		}
	}
	text := fmt.Sprintf("%s is %s", aws.ToString(in.TableName), out.Table.TableStatus)
	if n := len(out.Table.GlobalSecondaryIndexes); n > 0 {
		text += fmt.Sprintf(", %d of %d indexes can be used", ready, n)
	}
	if text != m.told && out.Table.TableStatus != types.TableStatusActive {
		m.report(text)
	}
	m.told = text
	return out, nil
}

func newAndOld() *types.StreamSpecification {
	return &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages}
}

func encryption(key string) *types.SSESpecification {
	return &types.SSESpecification{Enabled: aws.Bool(true), SSEType: types.SSETypeKms, KMSMasterKeyId: &key}
}

// complete does one step of a table that is there, unless it was done with the table.
func (m *maker) complete(ctx context.Context, step *Step, now State) error {
	err := m.step(ctx, step.Step, now)
	switch {
	case err == nil:
		step.Done = true
	case Unknown(err):
		step.Skipped = "this engine does not know it"
		return nil
	}
	return err
}

func (m *maker) step(ctx context.Context, step string, now State) error {
	name := m.plan.Input.TableName
	switch {
	case step == StepOlder:
		_, err := admin.New(m.plan.Layout).Migrate(ctx, false, nil)
		return err
	case step == StepStream && now.Stream == "":
		return m.update(ctx, &dynamodb.UpdateTableInput{TableName: name, StreamSpecification: newAndOld()})
	case step == StepProtection && now.Protection != Yes:
		return m.update(ctx, &dynamodb.UpdateTableInput{TableName: name, DeletionProtectionEnabled: aws.Bool(true)})
	case step == StepKey:
		return m.encrypt(ctx, now)
	case step == StepRecovery:
		return m.recover(ctx, now)
	case step == StepTags && len(missingTags(now.Tags, m.want.Tags)) > 0:
		_, err := m.TagResource(ctx, &dynamodb.TagResourceInput{ResourceArn: &now.ARN, Tags: tagList(m.want.Tags)})
		return err
	}
	return nil // it was made with the table
}

// encrypt gives the table its key, unless it has it.
func (m *maker) encrypt(ctx context.Context, now State) error {
	if sameKey(now.KMSKey, m.want.KMSKey) {
		return nil
	}
	err := m.update(ctx, &dynamodb.UpdateTableInput{TableName: m.plan.Input.TableName, SSESpecification: encryption(m.want.KMSKey)})
	var api smithy.APIError
	if errors.As(err, &api) && strings.Contains(api.ErrorMessage(), "already encrypted") { // an alias of its key
		return nil
	}
	return err
}

// update changes the table when nothing else changes it, and waits for the end.
func (m *maker) update(ctx context.Context, in *dynamodb.UpdateTableInput) error {
	idle := func() error {
		_, err := active(ctx, m, m.plan.Name(), func(*types.TableDescription) bool { return true })
		return err
	}
	if err := idle(); err != nil {
		return err
	}
	if _, err := m.UpdateTable(ctx, in); err != nil {
		return err
	}
	return idle()
}

// active waits until nothing changes a table, and it is as it should be.
func active(ctx context.Context, client Client, table string, should func(*types.TableDescription) bool) (found *types.TableDescription, err error) {
	err = until(ctx, func() (bool, error) {
		out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
		if err != nil {
			return false, err
		}
		found = out.Table
		return found.TableStatus == types.TableStatusActive && should(found), nil
	})
	return found, err
}

// recover turns point-in-time recovery on, as soon as DynamoDB lets a new table have it.
func (m *maker) recover(ctx context.Context, now State) error {
	if now.Recovery == Yes {
		return nil
	}
	return until(ctx, func() (bool, error) {
		_, err := m.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
			TableName:                        m.plan.Input.TableName,
			PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)},
		})
		if _, early := errors.AsType[*types.ContinuousBackupsUnavailableException](err); early {
			return false, nil
		}
		return err == nil, err
	})
}

// errSlow says that a change took longer than changes take.
var errSlow = fmt.Errorf("it is not done after %v", patience)

// until looks until something is done.
func until(ctx context.Context, done func() (bool, error)) error {
	waiting, cancel := context.WithTimeoutCause(ctx, patience, errSlow)
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if !ddb.Sleep(waiting, poll) {
			return context.Cause(waiting)
		}
	}
}
