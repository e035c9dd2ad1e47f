package infra

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	tableName  = "limits"
	everything = `{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}`
)

// here is where ddbmem's clients believe that they are.
var here = Place{Partition: "aws", Region: "us-east-1", Account: "123456789012"}

// world is a table in memory that every client reaches under a policy.
type world struct {
	*testing.T
	db *ddbmem.DB
}

// inWorld runs a test in virtual time, on a furnished table with two namespaces, none of
// them where the test is about none.
func inWorld(t *testing.T, test func(w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world{t, ddbmem.New()}
		t.Cleanup(w.db.Close)
		root, _ := w.open(everything, "")
		require.NoError(t, root.CreateTable(t.Context()))
		furnish(t, root)
		for _, name := range []string{"eu", "us", "purged"} {
			require.NoError(t, admin.New(root).Namespaces.Register(t.Context(), name))
			r, _ := w.open(everything, name)
			furnish(t, r)
		}
		test(w)
	})
}

// open is a repository whose requests pass under a policy.
func (w world) open(policy, namespace string) (*dynalimit.Repository, *guarded) {
	w.Helper()
	g := &guarded{next: w.db, policy: readPolicy(w.T, policy), place: here}
	r, err := dynalimit.NewRepository(w.db.Client(g.through), tableName, &dynalimit.RepositoryOptions{Namespace: namespace, Principal: operator})
	require.NoError(w, err)
	return r, g
}

// limiter is one that is closed at the end.
func (w world) limiter(r *dynalimit.Repository, opts *dynalimit.Options) *dynalimit.RateLimiter {
	w.Helper()
	l, err := dynalimit.New(r, opts)
	require.NoError(w, err)
	w.Cleanup(func() { assert.NoError(w, l.Close(context.WithoutCancel(w.Context()))) })
	return l
}

// permits requires that no call was refused.
func (g *guarded) permits(t *testing.T) {
	t.Helper()
	calls := g.seen()
	require.NotEmpty(t, calls)
	for _, c := range calls {
		require.True(t, g.policy.allows(c), "%+v", c)
	}
}

// roleOf is the policy of a role here.
func roleOf(t *testing.T, id, namespace string) string {
	t.Helper()
	return policyOf(t, id, Options{Namespace: namespace}, here)
}

// writesKinds writes to a bucket as a later version will, whose limits are of other kinds:
// roles have to be deployed before it.
func (w world) writesKinds(g *guarded, keys schema.Keys) {
	w.Helper()
	var sets []string
	for _, name := range schema.KindsState() {
		sets = append(sets, name+" = :0")
	}
	_, err := w.db.Client(g.through).UpdateItem(w.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(tableName), Key: keys.Bucket("of-a-later-version", "r").Attributes(),
		UpdateExpression:          aws.String("SET " + strings.Join(sets, ", ")),
		ExpressionAttributeValues: map[string]types.AttributeValue{":0": schema.Number(0)},
	})
	require.NoError(w, err)
}

// serve does everything that serving calls can do, and changes limits under it.
func (w world) serve(policy, namespace string) *guarded {
	w.Helper()
	ctx := w.Context()
	r, g := w.open(policy, namespace)
	root, _ := w.open(everything, namespace)
	w.writesKinds(g, schema.NewKeys(namespace))
	l := w.limiter(r, &dynalimit.Options{OnUnavailable: dynalimit.Allow, PrefetchResources: map[string]time.Duration{other: time.Second}})
	for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
		id := "new-" + string(mode)
		require.NoError(w, admin.New(root).Entities.Create(ctx, admin.Entity{ID: id, ParentID: parent, Cascade: true}))
		for range 3 { // cold, then warm
			w.correct(l, id, mode)
		}
		elapse(3 * time.Hour) // then a claim
		w.correct(l, id, mode)
	}
	ofEntity := admin.LimitConfig{Limits: append(fewer, dynalimit.PerDay("tpd", 1000), dynalimit.DailyQuota("rpd", 1000, "")), Version: admin.AnyVersion, Only: true}
	require.NoError(w, only(admin.New(root).Limits.SetConfig(ctx, admin.Scope{Entity: entity}, ofEntity)))
	elapse(time.Hour)
	w.correct(l, entity, dynalimit.ChargeParallel) // with changed limits
	w.look(l)
	for range 200 { // a busy bucket: debited ahead
		require.NoError(w, only(l.Acquire(ctx, parent, other, dynalimit.Amounts{"tpm": 1})))
		elapse(5 * time.Millisecond)
	}
	w.outage(l)
	return g
}

// correct takes, corrects and gives back in each way.
func (w world) correct(l *dynalimit.RateLimiter, id string, mode dynalimit.ChargeMode) {
	ctx, one := w.Context(), dynalimit.Amounts{"rpm": 1}
	lease, err := l.Acquire(ctx, id, model, one, dynalimit.WithChargeMode(mode))
	require.NoError(w, err)
	require.NoError(w, lease.Consume(ctx, one))
	require.NoError(w, lease.Adjust(ctx, dynalimit.Amounts{"rpm": -1}))
	require.NoError(w, lease.Settle(ctx, one))
	lease, err = l.Wait(ctx, id, model, one, dynalimit.WithChargeMode(mode), dynalimit.WithLimits(dynalimit.PerHour("rph", 50)))
	require.NoError(w, err)
	require.NoError(w, lease.Rollback(ctx))
	require.NoError(w, l.Do(ctx, id, model, one, func(context.Context, *dynalimit.Lease) error { return nil }))
}

// look asks what there is, and is denied.
func (w world) look(l *dynalimit.RateLimiter) {
	ctx := w.Context()
	require.NoError(w, only(l.Check(ctx, entity, model, nil)))
	require.NoError(w, only(l.Check(ctx, entity, model, dynalimit.Amounts{"rpm": 1})))
	require.ErrorIs(w, only(l.Acquire(ctx, entity, model, dynalimit.Amounts{"rpm": 5})), dynalimit.ErrLimitExceeded)
}

// outage makes DynamoDB silent for a while: calls are admitted by the policy, and a probe
// finds out when it is over.
func (w world) outage(l *dynalimit.RateLimiter) {
	w.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
	lease, err := l.Acquire(w.Context(), parent, model, dynalimit.Amounts{"rpm": 1})
	require.NoError(w, err)
	require.True(w, lease.Degraded())
	for range 5 {
		require.NoError(w, only(l.Acquire(w.Context(), "user-1", model, dynalimit.Amounts{"rpm": 1})))
	}
	w.db.SetFaults(nil)
	elapse(5 * time.Minute)
	require.False(w, l.Health().Open)
}

// read does everything that reading can do.
func (w world) read(policy, namespace string) *guarded {
	w.Helper()
	r, g := w.open(policy, namespace)
	for name, read := range reading {
		require.NoError(w, read(w.Context(), r), name)
	}
	require.NoError(w, only(w.limiter(r, nil).Check(w.Context(), entity, model, amounts)))
	require.NoError(w, describe(w.Context(), w.db.Client(g.through)))
	return g
}

// administer does everything that administering can do.
func (w world) administer(policy, namespace string) *guarded {
	w.Helper()
	g := w.read(policy, namespace)
	r, g2 := w.open(policy, namespace)
	for name, change := range changing {
		require.NoError(w, change(w.Context(), r), name)
	}
	g.calls = append(g.calls, g2.seen()...)
	if namespace != "" {
		return g
	}
	for name, do := range owning {
		require.NoError(w, do(w.Context(), r), name)
	}
	g.calls = append(g.calls, g2.seen()...)
	empty := world{w.T, ddbmem.New()} // a table to make
	defer empty.db.Close()
	made, g3 := empty.open(policy, "")
	require.NoError(w, made.CreateTable(w.Context()))
	g.calls = append(g.calls, g3.seen()...)
	bound, g4 := w.open(policy, "eu") // and a namespace, whose changes check that it is active
	for name, change := range changing {
		require.NoError(w, change(w.Context(), bound), name)
	}
	g.calls = append(g.calls, g4.seen()...)
	return g
}

// TestTemplatesTableServes: a table that a template made serves calls under the policy of
// what serves them as soon as an administrator has migrated it, and nobody else can.
func TestTemplatesTableServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world{t, ddbmem.New()}
		t.Cleanup(w.db.Close)
		root, _ := w.open(everything, "")
		_, err := w.db.Client().CreateTable(w.Context(), root.TableInput())
		require.NoError(t, err)
		serves := roleOf(t, "Acquire", "")
		reads := roleOf(t, "Read", "")
		administers := roleOf(t, "Admin", "")
		for _, policy := range []string{serves, reads} {
			r, _ := w.open(policy, "")
			require.ErrorContains(t, only(admin.New(r).Migrate(w.Context(), false, nil)), "AccessDenied")
		}
		r, _ := w.open(serves, "")
		l := w.limiter(r, &dynalimit.Options{Limits: limits})
		require.ErrorContains(t, only(l.Acquire(w.Context(), entity, model, amounts)), "Query", "items of older layouts are looked for")
		root, g := w.open(administers, "")
		require.NoError(t, only(admin.New(root).Migrate(w.Context(), false, nil)))
		g.permits(t)
		r, g = w.open(serves, "")
		require.NoError(t, only(w.limiter(r, &dynalimit.Options{Limits: limits}).Acquire(w.Context(), entity, model, amounts)))
		g.permits(t)
	})
}

// elapse lets virtual time pass, and everything that it sets off.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var namespaces = []string{"", "eu"}

// plays are what each role must be able to do.
var plays = map[string]func(w world, policy, namespace string) *guarded{"Acquire": world.serve, "Read": world.read, "Admin": world.administer}

// TestRolesCanDoWhatTheyMust: under its policy each role's operations pass, and each
// statement, action, resource and value of the policy is there for one of them.
func TestRolesCanDoWhatTheyMust(t *testing.T) {
	for id, play := range plays {
		for _, namespace := range namespaces {
			t.Run(id+" "+namespace, func(t *testing.T) {
				inWorld(t, func(w world) {
					policy := roleOf(t, id, namespace)
					g := play(w, policy, namespace)
					g.permits(t)
					needed(t, policy, g.seen())
				})
			})
		}
	}
}

// lessenings are a policy without each of its statements, actions, resources and compared
// values.
func lessenings(t *testing.T, policy string) map[string]iamPolicy {
	t.Helper()
	less := map[string]iamPolicy{}
	drop := func(what string, change func(p iamPolicy)) {
		p := readPolicy(t, policy)
		change(p)
		less[what] = p
	}
	for i, s := range readPolicy(t, policy).Statement {
		drop(fmt.Sprintf("statement %d", i), func(p iamPolicy) { p.Statement[i] = iamStatement{Effect: "Allow", Action: values{}} })
		for j, action := range s.Action {
			drop(fmt.Sprintf("statement %d: %s", i, action), func(p iamPolicy) { p.Statement[i].Action = slices.Delete(p.Statement[i].Action, j, j+1) })
		}
		for j, resource := range s.Resource {
			drop(fmt.Sprintf("statement %d: %s", i, resource), func(p iamPolicy) { p.Statement[i].Resource = slices.Delete(p.Statement[i].Resource, j, j+1) })
		}
		for key, want := range s.Condition[allLike] {
			for j, value := range want {
				drop(fmt.Sprintf("statement %d: %s %s", i, key, value), func(p iamPolicy) {
					p.Statement[i].Condition[allLike][key] = slices.Delete(slices.Clone(want), j, j+1)
				})
			}
		}
	}
	return less
}

// loosenings are a policy without each of its conditions.
func loosenings(t *testing.T, policy string) map[string]iamPolicy {
	t.Helper()
	loose := map[string]iamPolicy{}
	for i, s := range readPolicy(t, policy).Statement {
		for operator, keys := range s.Condition {
			for key := range keys {
				p := readPolicy(t, policy)
				delete(p.Statement[i].Condition[operator], key)
				loose[fmt.Sprintf("statement %d: %s %s", i, operator, key)] = p
			}
		}
	}
	return loose
}

// TestAcquireCannotAdminister: under the policy of what serves calls every method that
// changes something is refused, and nothing is changed.
func TestAcquireCannotAdminister(t *testing.T) {
	for _, namespace := range namespaces {
		inWorld(t, func(w world) {
			policy := roleOf(t, "Acquire", namespace)
			before := w.dump()
			for _, methods := range []map[string]method{changing, owning} {
				for name, change := range methods {
					if name == "Migrate" || name == "Upgrade" { // of which nothing is left here: see TestTemplatesTableServes
						continue
					}
					r, _ := w.open(policy, namespace)
					err := change(w.Context(), r)
					require.Error(w, err, name)
					if namespace == "" || methods["CreateTable"] == nil { // bound to a namespace, it is about no other
						assert.ErrorContains(t, err, "AccessDenied", name)
					}
				}
			}
			assert.Equal(t, before, w.dump(), "nothing was changed")
		})
	}
}

// dump is all that the table holds.
func (w world) dump() string {
	w.Helper()
	out, err := w.db.Client().Scan(w.Context(), &dynamodb.ScanInput{TableName: new(tableName)})
	require.NoError(w, err)
	text, err := json.Marshal(out.Items)
	require.NoError(w, err)
	return string(text)
}

// hostile are calls that somebody who holds a role could construct, by the roles that must
// not be allowed them. The prefix is the role's namespace with its slash.
func hostile(prefix string) []iamCall {
	table := "arn:aws:dynamodb:us-east-1:123456789012:table/limits"
	call := constructed
	own := []string{prefix + "ENTITY#key"}
	calls := []iamCall{
		call("PutItem", table, own, "PK", "SK", "b_rpm_tk"),
		call("DeleteItem", table, own, "PK", "SK"),
		call("BatchWriteItem", table, own, "PK", "SK", "b_rpm_tk"),
		call("UpdateItem", table, own), // of which nobody says what it writes
		call("UpdateItem", table, nil, "PK", "SK", "b_rpm_tk"),
		call("UpdateItem", table, append(own, "zz/ENTITY#key"), "PK", "SK", "b_rpm_tk"),
		call("UpdateItem", table+"2", own, "PK", "SK", "b_rpm_tk"),
		call("GetItem", table, nil, "PK", "SK"),
		call("BatchGetItem", table, append(own, "zz/ENTITY#key")),
		call("GetItem", table, []string{"zz/ENTITY#key"}),
		call("GetItem", table, []string{prefix + "AUDIT#key"}),
		call("Query", table, own, "PK"), call("Query", table+"/index/GSI1", []string{prefix + "PARENT#shop"}),
		call("Scan", table, nil), call("DeleteTable", table, nil), call("UpdateTable", table, nil), call("UpdateTimeToLive", table, nil),
		call("CreateTable", table, nil), call("ConditionCheckItem", table, own, "PK"),
	}
	for _, name := range []string{
		"l_rpm_cp", "l_rpm_bx", "l_rpm_ra", "l_rpm_rp", "blocked", "unlimited", "on_unavailable", "config_version", "managed_by", // limits
		"parent_id", "cascade", "plan", "deleting", "version", "name", "metadata", "GSI1PK", "GSI3PK", // records
		"u_rpm_n", "u_rpm_l", "u_rpm_x", "seq", "total_events", "window", "window_start", "summed", "entities", "final", "closed", "above", // usage
		"details", "principal", "event_id", "operation_id", "state", "schema_version", "composite_only", "data", "adoptions", "resources",
	} {
		calls = append(calls, call("UpdateItem", table, own, "PK", "SK", name), call("UpdateItem", table, own, "PK", "SK", "b_rpm_tk", name))
		inside := call("UpdateItem", table, own, "PK", "SK", name)
		inside.Context["dynamodb:EnclosingOperation"] = []string{"TransactWriteItems"}
		calls = append(calls, inside)
	}
	for _, key := range []string{"SYSTEM#", "RESOURCE#gpt-4", "PLAN#pro", "AUDIT#key", "NAMESPACES", "PARENT#shop"} {
		calls = append(calls, call("UpdateItem", table, []string{prefix + key}, "PK", "SK", "ttl"))
	}
	for _, key := range []string{"SYSTEM#", "zz/ENTITY#key", "zz/SYSTEM#", "eu", "e/ENTITY#key"} {
		calls = append(calls, call("UpdateItem", table, []string{key}, "PK", "SK", "ttl"))
	}
	for _, action := range []string{"PartiQLInsert", "PartiQLUpdate", "PartiQLDelete", "PartiQLSelect"} {
		calls = append(calls, call(action, table, own, "PK", "SK", "b_rpm_tk"))
	}
	return calls
}

// TestAcquireIsRefusedWhatIsHostile: who holds the role that serves calls can write no
// limit, no record and no key of anybody else, however the request is made; and each
// condition of the policy is there to refuse something.
func TestAcquireIsRefusedWhatIsHostile(t *testing.T) {
	for namespace, prefix := range map[string]string{"": "", "eu": "eu/"} {
		text := roleOf(t, "Acquire", namespace)
		policy, all := readPolicy(t, text), readPolicy(t, everything)
		for _, c := range hostile(prefix) {
			assert.True(t, all.allows(c))
			assert.False(t, policy.allows(c), "%+v", c)
		}
		for what, loose := range loosenings(t, text) {
			assert.True(t, slices.ContainsFunc(hostile(prefix), loose.allows), "without %s nothing more is allowed", what)
		}
	}
}

// TestRolesOfANamespaceStayInIt: readers and administrators of a namespace reach no other
// one, nor the table as a whole; and each condition is there to refuse something.
func TestRolesOfANamespaceStayInIt(t *testing.T) {
	const table = "arn:aws:dynamodb:us-east-1:123456789012:table/limits"
	for _, id := range []string{"Read", "Admin"} {
		text := roleOf(t, id, "eu")
		var outside []iamCall
		for _, key := range []string{"us/ENTITY#key", "ENTITY#key", "us/SYSTEM#", "SYSTEM#2", "RESOURCE#gpt-4", "AUDIT#key", "eu"} {
			for _, action := range []string{"GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "ConditionCheckItem"} {
				outside = append(outside, iamCall{actionsPrefix + action, table, map[string][]string{leadingKeys: {key}}},
					iamCall{actionsPrefix + action, table, map[string][]string{leadingKeys: {"eu/ENTITY#a", key}}}, iamCall{actionsPrefix + action, table, nil})
			}
			outside = append(outside, iamCall{"dynamodb:Query", table + "/index/GSI3", map[string][]string{leadingKeys: {key}}})
		}
		outside = append(outside, iamCall{"dynamodb:PutItem", table, map[string][]string{leadingKeys: {"SYSTEM#"}}})
		for _, action := range []string{"Scan", "CreateTable", "DeleteTable", "UpdateTimeToLive"} {
			outside = append(outside, iamCall{actionsPrefix + action, table, nil})
		}
		policy := readPolicy(t, text)
		for _, c := range outside {
			assert.False(t, policy.allows(c), "%s: %+v", id, c)
		}
		for what, loose := range loosenings(t, text) {
			assert.True(t, slices.ContainsFunc(outside, loose.allows), "%s: without %s nothing more is allowed", id, what)
		}
	}
}

// TestAdministratorsChangeAlone: what administrators' methods write is refused to readers,
// call by call, and to what serves calls but for writes of buckets.
func TestAdministratorsChangeAlone(t *testing.T) {
	inWorld(t, func(w world) {
		g := w.administer(everything, "")
		reader := roleOf(t, "Read", "")
		server := roleOf(t, "Acquire", "")
		writes := 0
		for _, c := range g.seen() {
			name := strings.TrimPrefix(c.Action, actionsPrefix)
			if slices.Contains([]string{"GetItem", "BatchGetItem", "Query", "DescribeTable", "DescribeTimeToLive"}, name) {
				continue
			}
			writes++
			assert.False(t, readPolicy(t, reader).allows(c), "%+v", c)
			if readPolicy(t, server).allows(c) {
				assert.Equal(t, "UpdateItem", name)
				assert.True(t, slices.ContainsFunc(c.Context[attributes], func(n string) bool { return strings.HasPrefix(n, "b_") }), "%+v", c)
			}
		}
		assert.Greater(t, writes, 50)
	})
}
