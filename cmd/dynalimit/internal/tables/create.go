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
	// poll is the time between two checks of a table that is being changed.
	poll = 2 * time.Second
	// patience bounds one change of a table.
	patience = 10 * time.Minute
)

// Result is the result of creating a table.
type Result struct {
	Table string `json:"table"`
	// Steps are the missing parts. Empty if the table was complete.
	Steps  []Step `json:"steps"`
	DryRun bool   `json:"dry_run"`
	State  State  `json:"state"`
}

// Create creates the table, or completes an existing one, and passes its activity to report. It fails for a
// missing table if want.Existing; a dry run only returns the missing parts. After an error the result has the
// finished steps, and a new call continues.
func Create(ctx context.Context, client Client, p Plan, want Settings, dryRun bool, report func(string)) (Result, error) {
	r := Result{Table: p.Name(), Steps: []Step{}, DryRun: dryRun}
	var err error
	if r.State, err = Look(ctx, client, p); err != nil {
		return r, err
	}
	if want.Existing && !r.State.Exists() {
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

// carryOut creates the table if it is missing, then executes the steps in order, and sets Done or Skipped of
// each in place. report receives the table's activity. It stops at the first failed step.
func carryOut(ctx context.Context, client Client, p Plan, want Settings, report func(string), steps []Step) error {
	made := &maker{Client: client, want: want, report: report, plan: p}
	switch err := p.Make(ctx, made); {
	case IsUnknown(err) && want.KMSKey != "":
		return fmt.Errorf("%w; leave --kms-key out with this engine", err)
	case err != nil:
		return err
	}
	now, err := Look(ctx, client, p)
	if err != nil {
		return err
	}
	for i := range steps {
		if err := made.completeStep(ctx, &steps[i], now); err != nil {
			return fmt.Errorf("%s: %s: %w; the steps before it are done, run the command again", p.Name(), steps[i].About, err)
		}
	}
	return nil
}

// isEmpty reads two items and reports whether a table without the mark of today's layout has no items but its
// version record. Without a read it returns false for marked, missing and other programs' tables.
func isEmpty(ctx context.Context, client Client, p Plan, s State) (bool, error) {
	if p.Layout == nil || !s.Exists() || s.CompositeOnly || s.foreign {
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

// maker is a client that creates tables with the settings, and reports their activity.
type maker struct {
	Client
	want   Settings
	plan   Plan
	report func(string)
	told   string
}

// CreateTable sends the library's request with the protection, stream, key and tags of m.want in place of its
// own. Without m.want.Stream the table gets no stream. It does not change in.
func (m *maker) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	with := *in
	if m.want.Protection {
		with.DeletionProtectionEnabled = aws.Bool(true)
	}
	if m.want.Stream {
		with.StreamSpecification = streamSetting()
	} else {
		with.StreamSpecification = nil
	}
	if m.want.KMSKey != "" {
		with.SSESpecification = encryptionSetting(m.want.KMSKey)
	}
	with.Tags = tagList(m.want.Tags)
	return m.Client.CreateTable(ctx, &with, opts...)
}

// DescribeTable sends the request and returns its answer. It also passes the table's status to m.report if that
// has changed, unless the table is ACTIVE.
func (m *maker) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := m.Client.DescribeTable(ctx, in, opts...)
	if err != nil {
		return out, err
	}
	ready := 0
	for _, x := range out.Table.GlobalSecondaryIndexes {
		if isUsable(x.IndexStatus) {
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

// streamSetting returns the setting of a stream of new and old images, for a request.
func streamSetting() *types.StreamSpecification {
	return &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages}
}

// encryptionSetting returns the setting of encryption under a customer's KMS key, for a request.
func encryptionSetting(key string) *types.SSESpecification {
	return &types.SSESpecification{Enabled: aws.Bool(true), SSEType: types.SSETypeKms, KMSMasterKeyId: &key}
}

// completeStep executes one step on an existing table, in state now, and sets its Done. If the engine does not
// know the operation, it sets Skipped and returns nil.
func (m *maker) completeStep(ctx context.Context, step *Step, now State) error {
	err := m.runStep(ctx, step.Step, now)
	switch {
	case err == nil:
		step.Done = true
	case IsUnknown(err):
		step.Skipped = "this engine does not know it"
		return nil
	}
	return err
}

// runStep sends the request of a step for the table in state now, and waits for its end where it takes time. It
// does nothing if the table has that part already.
func (m *maker) runStep(ctx context.Context, step string, now State) error {
	name := m.plan.Input.TableName
	switch {
	case step == StepOlder:
		_, err := admin.New(m.plan.Layout).Migrate(ctx, false, nil)
		return err
	case step == StepStream && now.Stream == "":
		return m.updateTable(ctx, &dynamodb.UpdateTableInput{TableName: name, StreamSpecification: streamSetting()})
	case step == StepProtection && now.Protection != Yes:
		return m.updateTable(ctx, &dynamodb.UpdateTableInput{TableName: name, DeletionProtectionEnabled: aws.Bool(true)})
	case step == StepKey:
		return m.setKMSKey(ctx, now)
	case step == StepRecovery:
		return m.enableRecovery(ctx, now)
	case step == StepTags && len(missingTags(now.Tags, m.want.Tags)) > 0:
		_, err := m.TagResource(ctx, &dynamodb.TagResourceInput{ResourceArn: &now.ARN, Tags: tagList(m.want.Tags)})
		return err
	}
	return nil // included in the creation
}

// setKMSKey sets the table's KMS key to m.want's and waits for the end. It returns nil without a change if the
// table uses the key already, also under an alias.
func (m *maker) setKMSKey(ctx context.Context, now State) error {
	if isSameKMSKey(now.KMSKey, m.want.KMSKey) {
		return nil
	}
	err := m.updateTable(ctx, &dynamodb.UpdateTableInput{TableName: m.plan.Input.TableName, SSESpecification: encryptionSetting(m.want.KMSKey)})
	var api smithy.APIError
	if errors.As(err, &api) && strings.Contains(api.ErrorMessage(), "already encrypted") { // an alias of the same key
		return nil
	}
	return err
}

// updateTable waits until the table is ACTIVE, sends the request, and waits until it is ACTIVE again. Each wait
// fails after 10 minutes.
func (m *maker) updateTable(ctx context.Context, in *dynamodb.UpdateTableInput) error {
	idle := func() error {
		_, err := awaitActive(ctx, m, m.plan.Name(), func(*types.TableDescription) bool { return true })
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

// awaitActive polls a table until it is ACTIVE and should returns true for its description, which it returns.
// After 10 minutes it fails with errSlow.
func awaitActive(ctx context.Context, client Client, table string, should func(*types.TableDescription) bool) (found *types.TableDescription, err error) {
	err = pollUntil(ctx, func() (bool, error) {
		out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
		if err != nil {
			return false, err
		}
		found = out.Table
		return found.TableStatus == types.TableStatusActive && should(found), nil
	})
	return found, err
}

// enableRecovery turns point-in-time recovery on, unless it is on in now. It retries, for at most 10 minutes,
// while DynamoDB does not permit it for a new table.
func (m *maker) enableRecovery(ctx context.Context, now State) error {
	if now.Recovery == Yes {
		return nil
	}
	return pollUntil(ctx, func() (bool, error) {
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

// errSlow means that a change took too long.
var errSlow = fmt.Errorf("it is not done after %v", patience)

// pollUntil calls done, at once and then every two seconds, until it returns true or an error, which pollUntil
// returns. After 10 minutes it returns errSlow, and at the end of ctx its cause.
func pollUntil(ctx context.Context, done func() (bool, error)) error {
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
