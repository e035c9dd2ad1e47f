package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/doctor"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// ill is a patient with the shell that it came from.
type ill struct {
	*shell
	doctor.Patient
	cmd doctorCmd
	g   *globals
	// http sends the requests; nil for the network.
	http aws.HTTPClient
}

// admit is the patient that `dynalimit doctor` would examine at an endpoint.
func (s *shell) admit(g *globals) *ill {
	s.t.Helper()
	if g.Endpoint == "" {
		g.Endpoint = s.endpoint
	}
	if g.Table == "" {
		g.Table = "limits"
	}
	x := &ill{shell: s, g: g, cmd: doctorCmd{Role: doctor.RoleAdmin, Timeout: time.Minute, whichTables: whichTables{Control: "control", Usage: "usage"}}}
	x.readmit()
	return x
}

// readmit makes the patient anew, after the command or the flags were changed.
func (x *ill) readmit() {
	o := x.g.connectOptions(context.WithValue(x.t.Context(), clockKey{}, x.clock))
	cfg, err := o.Config(x.t.Context())
	require.NoError(x.t, err)
	if x.http != nil {
		cfg.HTTPClient = x.http
	}
	cfg.Logger = logging.Nop{}
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	x.Patient, err = x.cmd.newPatient(x.g, o, cfg)
	require.NoError(x.t, err)
}

// examine is the examination's results by their checks.
func (x *ill) examine() map[string]tables.Finding {
	x.t.Helper()
	results, err := doctor.Examine(x.t.Context(), x.Patient, func(string) {})
	require.NoError(x.t, err)
	byCheck := map[string]tables.Finding{}
	for _, r := range results {
		require.NotContains(x.t, byCheck, r.Check, "a check twice")
		byCheck[r.Check] = r
	}
	return byCheck
}

// altered is a client whose answers are changed, as engines give other ones.
type altered struct {
	tables.Client
	table func(*types.TableDescription)
	ttl   func(string, *types.TimeToLiveDescription)
}

func (a *altered) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, opts ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	out, err := a.Client.DescribeTimeToLive(ctx, in, opts...)
	if err == nil && a.ttl != nil {
		a.ttl(*in.TableName, out.TimeToLiveDescription)
	}
	return out, err
}

// ttl changes what the time to live of tables is described as.
func (x *ill) ttl(how func(string, *types.TimeToLiveDescription)) {
	x.Client = &altered{Client: x.Client, ttl: how}
}

func (a *altered) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, opts ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := a.Client.DescribeTable(ctx, in, opts...)
	if err == nil && a.table != nil {
		a.table(out.Table)
	}
	return out, err
}

// alter changes what the table is described as.
func (x *ill) alter(how func(*types.TableDescription)) {
	x.Client = &altered{Client: x.Client, table: how}
}

// fail answers every request of an operation with an error; "" stands for all of them.
func (x *ill) fail(code string, operations ...string) {
	x.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		for _, operation := range operations {
			if operation == "" || r.Operation == operation {
				return ddbmem.Fault{Error: &ddbmem.Error{Code: code, Message: "as the test says"}}
			}
		}
		return ddbmem.Fault{}
	})
}

// made makes a table from the library's description of it, changed.
func (x *ill) made(name string, how func(*dynamodb.CreateTableInput)) {
	in := x.repository().TableInput()
	in.TableName = &name
	how(in)
	_, err := x.db.Client().CreateTable(x.t.Context(), in)
	require.NoError(x.t, err)
	x.g.Table = name
	x.readmit()
}

// keyed keeps the attribute definitions that keys use.
func keyed(in *dynamodb.CreateTableInput) {
	used := map[string]bool{}
	for _, k := range in.KeySchema {
		used[*k.AttributeName] = true
	}
	for _, x := range in.GlobalSecondaryIndexes {
		for _, k := range x.KeySchema {
			used[*k.AttributeName] = true
		}
	}
	var kept []types.AttributeDefinition
	for _, d := range in.AttributeDefinitions {
		if used[*d.AttributeName] {
			kept = append(kept, d)
		}
	}
	in.AttributeDefinitions = kept
}

func (x *ill) put(item map[string]types.AttributeValue) {
	_, err := x.db.Client().PutItem(x.t.Context(), &dynamodb.PutItemInput{TableName: &x.g.Table, Item: item})
	require.NoError(x.t, err)
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// expired are credentials whose time is over.
var expired = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b", CanExpire: true, Expires: time.Date(2026, 1, 23, 15, 0, 0, 0, time.UTC)}, nil
})

// lasting are credentials that are valid for ten more minutes.
var lasting = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b", CanExpire: true, Expires: time.Date(2026, 1, 23, 15, 40, 0, 0, time.UTC)}, nil
})

// elsewhere examines what a handler of the test serves.
func elsewhere(x *ill, h http.HandlerFunc) {
	server := httptest.NewServer(h)
	x.t.Cleanup(server.Close)
	x.g.Endpoint = server.URL
	x.readmit()
}

// ailments make one thing wrong each, and say how the doctor names it.
var ailments = []struct {
	name       string
	make       func(x *ill)
	check      string
	status     tables.Status
	found, fix string
}{
	{"nobody listens", func(x *ill) { x.g.Endpoint = "http://127.0.0.1:1"; x.readmit() }, "endpoint", tables.Wrong, "connection refused", "dynalimit local --port 1"},
	{"the endpoint hangs", func(x *ill) {
		x.cmd.Timeout = 50 * time.Millisecond
		x.readmit()
		x.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} })
	}, "endpoint", tables.Wrong, "no answer within 50ms", "dynalimit local"},
	{"another server answers", func(x *ill) {
		elsewhere(x, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusNotFound) })
	}, "endpoint", tables.Wrong, "not DynamoDB", "dynalimit doctor --endpoint"},
	{"credentials that DynamoDB says have expired", func(x *ill) { x.fail("ExpiredTokenException", "") }, "endpoint", tables.Wrong, "have expired", "aws sso login"},
	{"unknown credentials", func(x *ill) { x.fail("UnrecognizedClientException", "") }, "endpoint", tables.Wrong, "not known here", "aws sso login"},
	{"a refused signature", func(x *ill) { x.fail("InvalidSignatureException", "") }, "endpoint", tables.Wrong, "signature", "aws sso login"},
	{"credentials whose time is over", func(x *ill) { x.Credentials = expired }, "credentials", tables.Wrong, "expired at 2026-01-23 15:00:00 UTC", "aws sso login"},
	{"credentials that cannot be had", func(x *ill) {
		x.Credentials, x.Profile = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, assert.AnError }), "prod"
	}, "credentials", tables.Wrong, assert.AnError.Error(), "aws sso login --profile prod"},
	{"credentials that end soon", func(x *ill) {
		x.Credentials, x.Identity = lasting, func(context.Context) (string, error) { return "arn:aws:iam::1:user/ann", nil }
	}, "credentials", tables.Warning, "user/ann, until 2026-01-23 15:40:00 UTC", "aws sso login"},
	{"STS that does not answer", func(x *ill) {
		x.Credentials, x.Identity = lasting, func(context.Context) (string, error) { return "", context.DeadlineExceeded }
	}, "credentials", tables.Unchecked, "STS", ""},
	{"a clock 10 minutes ahead", func(x *ill) { x.Now = func() time.Time { return x.now.Add(10 * time.Minute) } }, "clock", tables.Wrong, "ahead", "chronyc"},
	{"a clock 10 minutes behind", func(x *ill) { x.Now = func() time.Time { return x.now.Add(-10 * time.Minute) } }, "clock", tables.Wrong, "10m0s behind", "chronyc"},
	{"a clock 5 seconds ahead", func(x *ill) { x.Now = func() time.Time { return x.now.Add(5 * time.Second) } }, "clock", tables.Warning, "4s ahead", "chronyc"},
	{"no such table", func(x *ill) { x.g.Table = "limts"; x.readmit() }, "table", tables.Wrong, `no table "limts" in us-east-1`, "dynalimit table create --endpoint"},
	{"a table that is being made", func(x *ill) {
		x.alter(func(d *types.TableDescription) { d.TableStatus = types.TableStatusCreating })
	}, "table", tables.Wrong, "CREATING", "dynalimit doctor"},
	{"a key that cannot be used", func(x *ill) {
		x.alter(func(d *types.TableDescription) { d.TableStatus = types.TableStatusInaccessibleEncryptionCredentials })
	}, "table", tables.Wrong, "INACCESSIBLE", "aws kms describe-key"},
	{"a table that may not be described", func(x *ill) { x.fail("AccessDeniedException", "DescribeTable") }, "table", tables.Unchecked, "not permitted", ""},
	{"a table of another product", func(x *ill) {
		x.made("users", func(in *dynamodb.CreateTableInput) {
			in.KeySchema = []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}}
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeN})
			in.GlobalSecondaryIndexes = nil
			keyed(in)
		})
	}, "keys", tables.Wrong, "(id N), not (PK S, SK S)", "dynalimit table create --table users-limits"},
	{"a table of another product with the same keys", func(x *ill) {
		x.made("users", func(*dynamodb.CreateTableInput) {})
		x.put(map[string]types.AttributeValue{"PK": text("USER#1"), "SK": text("PROFILE")})
	}, "layout", tables.Wrong, "about 1 items", "dynalimit table create --table users-limits"},
	{"a table that was made by hand", func(x *ill) { x.made("raw", func(*dynamodb.CreateTableInput) {}) }, "layout", tables.Warning, "no record", "dynalimit table create"},
	{"a missing index", func(x *ill) {
		x.made("bare", func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes = in.GlobalSecondaryIndexes[:1]
			keyed(in)
		})
	}, "index GSI2", tables.Wrong, "missing", "aws dynamodb update-table --table-name bare --attribute-definitions"},
	{"an index of something else", func(x *ill) {
		x.made("odd", func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[1].KeySchema = in.GlobalSecondaryIndexes[0].KeySchema
			keyed(in)
		})
	}, "index GSI2", tables.Wrong, "(GSI1PK S, GSI1SK S), not (GSI2PK S, GSI2SK S)", "dynalimit table create --table odd-limits"},
	{"an index of everything", func(x *ill) {
		x.made("dear", func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[1].Projection = &types.Projection{ProjectionType: types.ProjectionTypeAll}
		})
	}, "index GSI2", tables.Warning, "ALL", "aws dynamodb describe-table"},
	{"an index of less", func(x *ill) {
		x.made("old", func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[0].Projection = &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}
		})
	}, "index GSI1", tables.Hint, "less than", "aws dynamodb describe-table"},
	{"an index that is being made", func(x *ill) {
		x.alter(func(d *types.TableDescription) { d.GlobalSecondaryIndexes[2].IndexStatus = types.IndexStatusCreating })
	}, "index GSI3", tables.Wrong, "CREATING", "dynalimit doctor"},
	{"provisioned throughput", func(x *ill) {
		x.alter(func(d *types.TableDescription) {
			d.BillingModeSummary = nil
			d.ProvisionedThroughput = &types.ProvisionedThroughputDescription{WriteCapacityUnits: aws.Int64(5)}
		})
	}, "billing", tables.Warning, "5 write units", "aws dynamodb update-table --table-name limits --billing-mode PAY_PER_REQUEST"},
	{"no time to live", func(x *ill) { x.made("raw", func(*dynamodb.CreateTableInput) {}) }, "ttl", tables.Wrong, "off", "dynalimit table create"},
	{"time to live on another attribute", func(x *ill) {
		x.made("raw", func(*dynamodb.CreateTableInput) {})
		_, err := x.db.Client().UpdateTimeToLive(x.t.Context(), &dynamodb.UpdateTimeToLiveInput{TableName: aws.String("raw"), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires"), Enabled: aws.Bool(true)}})
		require.NoError(x.t, err)
	}, "ttl", tables.Wrong, `"expires"`, "aws dynamodb update-time-to-live"},
	{"no stream", func(x *ill) { x.made("raw", func(in *dynamodb.CreateTableInput) { in.StreamSpecification = nil }) }, "stream", tables.Warning, "off", "dynalimit table create"},
	{"a stream of keys", func(x *ill) {
		x.made("raw", func(in *dynamodb.CreateTableInput) {
			in.StreamSpecification.StreamViewType = types.StreamViewTypeKeysOnly
		})
	}, "stream", tables.Warning, "KEYS_ONLY", "aws dynamodb update-table"},
	{"no point-in-time recovery", func(*ill) {}, "recovery", tables.Warning, "off", "dynalimit table create"},
	{"an engine that knows no recovery", func(x *ill) { x.fail("UnknownOperationException", "DescribeContinuousBackups") }, "recovery", tables.Unchecked, "does not know", ""},
	{"no deletion protection", func(*ill) {}, "protection", tables.Warning, "off", "dynalimit table create"},
	{"an engine that knows no protection", func(x *ill) { x.alter(func(d *types.TableDescription) { d.DeletionProtectionEnabled = nil }) }, "protection", tables.Unchecked, "does not say", ""},
	{"a layout of the future", func(x *ill) {
		x.put(map[string]types.AttributeValue{"PK": text("SYSTEM#"), "SK": text("#VERSION"), "schema_version": text("9.0.0"), "client_min_version": text("0.0.0")})
	}, "layout", tables.Wrong, "layout 9.0.0", "dynalimit --version"},
	{"a table of zae-limiter 0.10 or later", func(x *ill) {
		x.made("zae", func(*dynamodb.CreateTableInput) {})
		x.put(map[string]types.AttributeValue{"PK": text("_/SYSTEM#"), "SK": text("#VERSION"), "schema_version": text("0.10.0"), "client_min_version": text("0.0.0")})
	}, "layout", tables.Wrong, "0.10.0 of zae-limiter", "dynalimit manifest export --from-zae zae"},
	{"a table that zae-limiter 0.10 or later upgraded in place", func(x *ill) {
		x.made("zae", func(*dynamodb.CreateTableInput) {})
		x.put(map[string]types.AttributeValue{"PK": text("SYSTEM#"), "SK": text("#VERSION"), "schema_version": text("0.8.0"), "client_min_version": text("0.0.0")})
		x.put(map[string]types.AttributeValue{"PK": text("_/SYSTEM#"), "SK": text("#VERSION"), "schema_version": text("0.10.0"), "client_min_version": text("0.0.0")})
	}, "layout", tables.Wrong, "0.10.0 of zae-limiter", "dynalimit manifest export --from-zae zae"},
	{"a table that was not migrated", func(x *ill) {
		x.put(map[string]types.AttributeValue{"PK": text("SYSTEM#"), "SK": text("#VERSION"), "schema_version": text("0.8.0"), "client_min_version": text("0.0.0")})
	}, "older items", tables.Warning, "not migrated", "dynalimit migrate"},
	{"GetItem is not permitted", func(x *ill) { x.fail("AccessDeniedException", "GetItem") }, "permission GetItem", tables.Wrong, "not permitted", "dynalimit template --parts roles"},
	{"BatchGetItem is not permitted", func(x *ill) { x.fail("AccessDeniedException", "BatchGetItem") }, "permission BatchGetItem", tables.Wrong, "not permitted", "dynalimit template --parts roles"},
	{"UpdateItem is not permitted", func(x *ill) { x.fail("AccessDeniedException", "UpdateItem") }, "permission UpdateItem", tables.Wrong, "not permitted", "dynalimit template --parts roles"},
	{"PutItem is not permitted", func(x *ill) { x.fail("AccessDeniedException", "PutItem") }, "permission PutItem", tables.Wrong, "not permitted", "dynalimit template --parts roles"},
	{"DeleteItem is not permitted", func(x *ill) { x.fail("AccessDeniedException", "DeleteItem") }, "permission DeleteItem", tables.Wrong, "not permitted", "dynalimit template --parts roles"},
	{"ConditionCheckItem is not permitted", func(x *ill) { x.fail("AccessDeniedException", "TransactWriteItems") }, "permission ConditionCheckItem", tables.Wrong, "not permitted", "dynalimit template --parts roles"},
	{"BatchWriteItem is not permitted", func(x *ill) { x.fail("AccessDeniedException", "BatchWriteItem") }, "permission BatchWriteItem", tables.Wrong, "not permitted", "dynalimit template --parts roles"},
	{"Scan is not permitted", func(x *ill) { x.fail("AccessDeniedException", "Scan") }, "permission Scan", tables.Wrong, "not permitted", "dynalimit template --parts roles"},
	{"Query of an index is not permitted", func(x *ill) {
		x.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "Query" && strings.Contains(string(r.Body), "GSI2") {
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
			}
			return ddbmem.Fault{}
		})
	}, "permission Query on GSI2", tables.Wrong, "not permitted", "dynalimit template --parts roles"},
	{"a table that throttles", func(x *ill) { x.fail("ThrottlingException", "UpdateItem") }, "permission UpdateItem", tables.Unchecked, "throttles", ""},
	{"a table that throttles everything", func(x *ill) { x.fail("ProvisionedThroughputExceededException", "") }, "requests", tables.Wrong, "throttles every request", "dynalimit table status"},
	{"a table whose items nobody gets", func(x *ill) {
		x.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Drop: !strings.HasPrefix(r.Operation, "Describe")}
		})
	}, "requests", tables.Wrong, "answers no request", "dynalimit doctor"},
	{"a connection that breaks", func(x *ill) {
		x.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: r.Operation == "UpdateItem"} })
	}, "permission UpdateItem", tables.Unchecked, "the network, not the permission", ""},
	{"a namespace that nobody registered", func(x *ill) { x.g.Namespace = "eu"; x.readmit() }, "namespace", tables.Wrong, "not registered", "dynalimit namespace register eu"},
	{"a namespace that was deleted", func(x *ill) {
		require.NoError(x.t, admin.New(x.repository()).Namespaces.Register(x.t.Context(), "eu"))
		require.NoError(x.t, admin.New(x.repository()).Namespaces.Delete(x.t.Context(), "eu"))
		x.g.Namespace = "eu"
		x.readmit()
	}, "namespace", tables.Wrong, "was deleted", "dynalimit namespace list"},
	{"a source that cannot be read", func(x *ill) {
		require.NoError(x.t, admin.New(x.repository()).Limits.Set(x.t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}))
		x.put(map[string]types.AttributeValue{"PK": text("RESOURCE#gpt-4"), "SK": text("#CONFIG"), "l_rpm_cp": text("lots")})
	}, "configuration of resource gpt-4", tables.Wrong, "l_rpm_cp", "aws dynamodb delete-item --table-name limits --key '{\"PK\":{\"S\":\"RESOURCE#gpt-4\"},\"SK\":{\"S\":\"#CONFIG\"}}'"},
	{"sources that may not be listed", func(x *ill) { x.fail("AccessDeniedException", "Query") }, "configuration", tables.Unchecked, "not permitted", ""},
	{"no system limits", func(*ill) {}, "system limits", tables.Hint, "none", "dynalimit system set rpm=100"},
	{"a blocked system", func(x *ill) {
		require.NoError(x.t, admin.New(x.repository()).Limits.SetBlocked(x.t.Context(), admin.Scope{Everyone: true}, true))
	}, "system limits", tables.Wrong, "blocked", "dynalimit system show"},
	{"usage that nobody sums up", func(*ill) {}, "usage", tables.Hint, "no process aggregates it", "dynalimit tail"},
	{"alerts that nobody sends", func(x *ill) {
		limit := dynalimit.DailyQuota("rpd", 5, "").WithAlerts(80)
		require.NoError(x.t, admin.New(x.repository()).Limits.Set(x.t.Context(), admin.Scope{Everyone: true, Resource: "gpt-4"}, []dynalimit.Limit{limit}))
	}, "alerts", tables.Warning, "limits of resource gpt-4 have alerts", "--alert-webhook FILE"},
	{"a stream that nobody has followed for hours", func(x *ill) { x.closedTo(5 * time.Hour) }, "usage", tables.Warning, "up to 2026-01-23 10:00:00", "dynalimit tail"},
	{"a stream that nobody has followed for days", func(x *ill) { x.closedTo(49 * time.Hour) }, "usage", tables.Warning, "up to 2026-01-21 14:00:00", "dynalimit tail"},
	{"hours of usage that cannot be told apart", func(x *ill) {
		x.put(map[string]types.AttributeValue{"PK": text("SYSTEM#"), "SK": text("#USAGE_CLOSED"), "closed_to": text("soon")})
	}, "usage", tables.Warning, "delete it", "aws dynamodb delete-item --table-name limits --key '{\"PK\":{\"S\":\"SYSTEM#\"}"},
	{"no tables of budgets", func(x *ill) { x.cmd.Budget, x.cmd.Usage = true, "spent"; x.readmit() }, "budget table spent", tables.Wrong, `no table "spent"`, "dynalimit table create --budget --usage spent"},
	{"a table of budgets whose time to live is being turned off", func(x *ill) {
		_, _, _ = x.run("table", "create", "--budget")
		_, err := x.db.Client().UpdateTimeToLive(x.t.Context(), &dynamodb.UpdateTimeToLiveInput{TableName: aws.String("usage"), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl_epoch"), Enabled: aws.Bool(false)}})
		require.NoError(x.t, err)
		x.cmd.Budget = true
		x.readmit()
		x.ttl(func(table string, d *types.TimeToLiveDescription) {
			if table == "usage" && d.TimeToLiveStatus == types.TimeToLiveStatusDisabled {
				d.TimeToLiveStatus, d.AttributeName = types.TimeToLiveStatusDisabling, aws.String("ttl_epoch")
			}
		})
	}, "budget table usage ttl", tables.Wrong, "off", "dynalimit table create --budget"},
	{"a table of budgets with time to live on another attribute", func(x *ill) {
		in := x.repository().TableInput()
		in.TableName = aws.String("usage")
		_, err := x.db.Client().CreateTable(x.t.Context(), in)
		require.NoError(x.t, err)
		_, err = x.db.Client().UpdateTimeToLive(x.t.Context(), &dynamodb.UpdateTimeToLiveInput{TableName: aws.String("usage"), TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)}})
		require.NoError(x.t, err)
		x.cmd.Budget = true
		x.readmit()
	}, "budget table usage ttl", tables.Wrong, `"ttl", not ttl_epoch`, "aws dynamodb update-time-to-live --table-name usage --time-to-live-specification Enabled=false,AttributeName=ttl"},
}

// TestDoctorNamesWhatIsWrong: each thing that is made wrong is named, with a command that
// makes it right, which the command line has.
func TestDoctorNamesWhatIsWrong(t *testing.T) {
	for _, a := range ailments {
		t.Run(a.name, func(t *testing.T) {
			x := newTable(t).admit(&globals{})
			a.make(x)
			r, seen := x.examine()[a.check]
			require.True(t, seen, "%v", x.examine())
			assert.Equal(t, a.status, r.Status, "%+v", r)
			assert.Contains(t, r.Found, a.found)
			assert.Contains(t, r.Fix, a.fix)
			assert.Equal(t, a.fix == "", r.Fix == "", "%+v", r)
			if r.Status != tables.Unchecked {
				assert.NotEmpty(t, r.Means)
			}
			commandExists(t, r.Fix)
		})
	}
}

// TestDoctorGivesOneAdviceForAnotherLayout: no command of ours is advised that would fail on
// the table.
func TestDoctorGivesOneAdviceForAnotherLayout(t *testing.T) {
	for _, a := range ailments {
		if a.check != "layout" || a.status != tables.Wrong {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			x := newTable(t).admit(&globals{})
			a.make(x)
			for check, r := range x.examine() {
				if check != "layout" {
					assert.NotContains(t, []tables.Status{tables.Wrong, tables.Warning, tables.Hint}, r.Status, "%+v", r)
				}
			}
		})
	}
}

// TestDoctorsFixesMend: a command that a check names is run as it is printed, and the check
// is as it should be.
func TestDoctorsFixesMend(t *testing.T) {
	mended := 0
	for _, a := range ailments {
		if !slices.Contains(mendable, a.name) {
			continue
		}
		mended++
		t.Run(a.name, func(t *testing.T) {
			x := newTable(t).admit(&globals{})
			a.make(x)
			fix := x.examine()[a.check].Fix
			require.NotEmpty(t, fix)
			x.answers = strings.NewReader("limits\n") // to migrate, which asks
			code, _, stderr := x.run(words(t, strings.TrimPrefix(fix, "dynalimit "))...)
			require.Equal(t, exitOK, code, "%s: %s", fix, stderr)
			x.readmit()
			r := x.examine()[a.check]
			assert.Equal(t, tables.OK, r.Status, "%s: %+v", fix, r)
		})
	}
	assert.Equal(t, len(mendable), mended)
}

// closedTo has hours of usage closed up to some time ago.
func (x *ill) closedTo(ago time.Duration) {
	x.t.Helper()
	now := x.now
	x.now = now.Add(-ago) // DynamoDB's time, by which hours are closed
	defer func() { x.now = now }()
	closer, err := aggregator.NewCloser(x.db.Client(), "limits", nil)
	require.NoError(x.t, err)
	_, err = closer.CloseDue(x.t.Context())
	require.NoError(x.t, err)
}

// mendable are the ailments that a command of dynalimit makes right by itself.
var mendable = []string{
	"no such table", "a table that was made by hand", "no time to live", "no stream", "no point-in-time recovery", "no deletion protection",
	"a table that was not migrated", "a namespace that nobody registered", "no system limits", "no tables of budgets",
	"a table of budgets whose time to live is being turned off",
}

// words are those that a shell makes of a line.
func words(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n' "+line).Output()
	require.NoError(t, err, line)
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// commandExists fails for a fix that the command line does not have, or whose arguments it
// refuses.
func commandExists(t *testing.T, fix string) {
	t.Helper()
	line, ours := strings.CutPrefix(fix, "dynalimit ")
	if !ours || line == "--version" {
		return
	}
	assert.NoError(t, parse(words(t, line)), fix)
}

// TestDoctorLeavesNoTrace: nothing is wrong, and nothing is left behind.
func TestDoctorLeavesNoTrace(t *testing.T) {
	s := newTable(t)
	require.NoError(t, admin.New(s.repository()).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 100)}))
	writes := 0
	s.db.OnWrite(func(ddbmem.Write) { writes++ })
	for _, role := range []doctor.Role{doctor.RoleService, doctor.RoleAcquire, doctor.RoleRead, doctor.RoleAdmin} {
		x := s.admit(&globals{})
		x.cmd.Role = role
		x.readmit()
		for _, r := range x.examine() {
			assert.NotEqual(t, tables.Wrong, r.Status, "%+v", r)
		}
	}
	assert.Zero(t, writes)
}

// TestDoctorGivesUpOnce: what hangs is waited for once, and what depends on it is told to be
// unchecked. Time is virtual: a slow machine hangs nothing.
func TestDoctorGivesUpOnce(t *testing.T) {
	for _, hangs := range []string{"DescribeTable", "GetItem", "BatchGetItem"} {
		synctest.Test(t, func(t *testing.T) {
			s := &shell{t: t, db: ddbmem.New(), now: time.Now(), endpoint: "http://127.0.0.1:1"}
			defer s.db.Close()
			require.NoError(t, s.repository().CreateTable(t.Context()))
			x := s.admit(&globals{})
			x.http = s.db
			x.readmit()
			var hung atomic.Int64 // the limiter asks from goroutines of its own
			s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				if r.Operation != hangs && hung.Load() == 0 {
					return ddbmem.Fault{}
				}
				hung.Add(1)
				return ddbmem.Fault{Before: time.Hour}
			})
			began := time.Now()
			results := x.examine()
			assert.Equal(t, tables.Unchecked, results["permission Query"].Status)
			assert.Equal(t, tables.Unchecked, results["configuration"].Status)
			assert.LessOrEqual(t, hung.Load(), int64(2), "%s: requests that hang", hangs)
			assert.Less(t, time.Since(began), 2*x.cmd.Timeout, hangs)
		})
	}
}

// TestDoctorWithoutARegion: a configuration of AWS that cannot be used is a finding too.
func TestDoctorWithoutARegion(t *testing.T) {
	s := newShell(t)
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	s.endpoint = "http://dynamodb.invalid:8000" // not on this machine
	code, stdout, stderr := s.run("doctor")
	assert.Equal(t, exitNo, code, stderr)
	assert.Contains(t, stdout, "no AWS region")
	assert.Contains(t, stdout, "aws configure")
}
