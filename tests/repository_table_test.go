package tests

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

func TestCreateTable(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.open(t, testworld.NewTable(), &dynalimit.RepositoryOptions{Now: noon})
		e.deleteAfter(t, r.table)
		for range 2 {
			require.NoError(t, r.CreateTable(t.Context()), "a second call finds it as it is")
		}
		out, err := e.client().DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &r.table})
		require.NoError(t, err)
		assert.Equal(t, types.StreamViewTypeNewAndOldImages, out.Table.StreamSpecification.StreamViewType)
		for _, x := range out.Table.GlobalSecondaryIndexes {
			assert.NotEqual(t, types.ProjectionTypeAll, x.Projection.ProjectionType, "an acquire must not be charged for %s", *x.IndexName)
		}
		ttl, err := e.client().DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &r.table})
		require.NoError(t, err)
		assert.Equal(t, schema.TTL, aws.ToString(ttl.TimeToLiveDescription.AttributeName))

		version, err := r.store.Get(t.Context(), "test", schema.VersionKey())
		require.NoError(t, err)
		assert.Equal(t, schema.Item{
			"PK": schema.String("SYSTEM#"), "SK": schema.String("#VERSION"), "schema_version": schema.String("0.8.0"),
			"client_min_version": schema.String("0.0.0"), "updated_at": schema.String("2099-01-02T12:00:00Z"), "updated_by": schema.String("dynalimit"),
			"composite_only": &types.AttributeValueMemberBOOL{Value: true},
		}, version)
	})
}

func TestCreateTableRefusesAnotherTTL(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.open(t, testworld.NewTable(), nil)
		_, err := e.client().CreateTable(t.Context(), r.TableInput())
		require.NoError(t, err)
		e.deleteAfter(t, r.table)
		_, err = e.client().UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName: &r.table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires"), Enabled: aws.Bool(true)},
		})
		require.NoError(t, err)
		require.ErrorContains(t, r.CreateTable(t.Context()), `by the attribute "expires"`)
	})
}

// slowTable answers DescribeTable as DynamoDB does for a table being made.
type slowTable struct {
	dynalimit.DynamoDB
	ready  time.Time
	index  types.IndexStatus
	looked int
}

func (s *slowTable) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, fns ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	s.looked++
	out, err := s.DynamoDB.DescribeTable(ctx, in, fns...)
	if err == nil && time.Now().Before(s.ready) {
		if s.index != "" {
			out.Table.GlobalSecondaryIndexes[0].IndexStatus = s.index
		} else {
			out.Table.TableStatus = types.TableStatusCreating
		}
	}
	return out, err
}

func TestCreateTableWaits(t *testing.T) {
	for name, index := range map[string]types.IndexStatus{"for the table": "", "for its indexes": types.IndexStatusCreating} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				slow := &slowTable{DynamoDB: e.client(), ready: time.Now().Add(30 * time.Second), index: index}
				r, err := openRepository(slow, "limits", &dynalimit.RepositoryOptions{Principal: tester})
				require.NoError(t, err)
				start := time.Now()
				require.NoError(t, r.CreateTable(t.Context()))
				assert.GreaterOrEqual(t, time.Since(start), 30*time.Second)
				assert.LessOrEqual(t, time.Since(start), 30*time.Second+2*time.Second)
				assert.Less(t, slow.looked, 40, "it does not hammer")
			})
		})
	}
}

func TestCreateTableGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		slow := &slowTable{DynamoDB: e.client(), ready: time.Now().Add(time.Hour)}
		r, err := openRepository(slow, "limits", &dynalimit.RepositoryOptions{Principal: tester})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, r.CreateTable(ctx), context.DeadlineExceeded)
		err = r.CreateTable(t.Context())
		require.ErrorIs(t, err, fault.ErrTable)
		assert.ErrorContains(t, err, "is not active after 10m0s")
	})
}

func TestCreateTableReportsFailures(t *testing.T) {
	for _, operation := range []string{"DescribeTable", "CreateTable", "DescribeTimeToLive", "UpdateTimeToLive", "PutItem"} {
		t.Run(operation, func(t *testing.T) {
			e := memEngine(t)
			e.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				if r.Operation == operation {
					return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
				}
				return ddbmem.Fault{}
			})
			err := e.open(t, "limits", nil).CreateTable(t.Context())
			require.ErrorContains(t, err, "AccessDeniedException")
			assert.False(t, errors.Is(err, dynalimit.ErrUnavailable), "a missing permission is no outage")
			e.db.SetFaults(nil)
			assert.NoError(t, e.open(t, "limits", nil).CreateTable(t.Context()), "a call that failed can be repeated")
		})
	}
}

func TestCreateTableRemarksOnTablesOfOthers(t *testing.T) {
	e := memEngine(t)
	var logged bytes.Buffer
	r := e.open(t, "limits", &dynalimit.RepositoryOptions{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	in := r.TableInput()
	in.StreamSpecification = nil
	in.GlobalSecondaryIndexes[1].Projection = &types.Projection{ProjectionType: types.ProjectionTypeAll}
	_, err := e.client().CreateTable(t.Context(), in)
	require.NoError(t, err)
	require.NoError(t, r.CreateTable(t.Context()))
	assert.Contains(t, logged.String(), "index GSI2 projects all attributes")
	assert.Contains(t, logged.String(), "no stream of new and old images")

	logged.Reset()
	ours := e.open(t, "ours", &dynalimit.RepositoryOptions{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	require.NoError(t, ours.CreateTable(t.Context()))
	assert.Empty(t, logged.String())
}

func TestTableRequests(t *testing.T) {
	e := memEngine(t)
	wire := record(e.db)
	r, err := openRepository(e.client(wire.Through), "limits", &dynalimit.RepositoryOptions{Principal: tester, Now: noon})
	require.NoError(t, err)
	require.NoError(t, r.CreateTable(t.Context()))
	assertGolden(t, "create_table", wire.Take())
	require.NoError(t, r.CreateTable(t.Context()))
	assertGolden(t, "create_table_again", wire.Take())
}

// TestTableWithoutAnIndex: a table of zae-limiter 0.7 or older lacks GSI3. Reads by
// the index name the command that adds it.
func TestTableWithoutAnIndex(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.open(t, testworld.NewTable(), nil)
		in := r.TableInput()
		in.GlobalSecondaryIndexes = slices.DeleteFunc(in.GlobalSecondaryIndexes, func(x types.GlobalSecondaryIndex) bool { return *x.IndexName == "GSI3" })
		in.AttributeDefinitions = slices.DeleteFunc(in.AttributeDefinitions, func(x types.AttributeDefinition) bool {
			return strings.HasPrefix(*x.AttributeName, "GSI3")
		})
		_, err := e.client().CreateTable(t.Context(), in)
		require.NoError(t, err)
		e.deleteAfter(t, r.table)
		for _, err := range admin.New(r.Repository).Entities.List(t.Context()) {
			require.ErrorIs(t, err, fault.ErrTable)
			require.ErrorContains(t, err, "'dynalimit doctor' prints the command")
			return
		}
		t.Error("the list has neither an entity nor an error")
	})
}
