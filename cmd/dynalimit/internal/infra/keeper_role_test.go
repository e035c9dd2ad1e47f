package infra

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/keeper/pricefeed"
	"github.com/dynalimit/dynalimit/keeper/serve"
)

// service is what `dynalimit keeper serve` is made of, without its listeners, under a policy:
// so a test has virtual time.
type service struct {
	*testing.T
	db         *ddbmem.DB
	wire       *guarded
	keys       *credentials.KeySet
	client     *dynamodb.Client
	keeper     *budget.Keeper
	store      *credentials.Store
	repository *dynalimit.Repository
	handler    http.Handler
	key        string          // a provisioning key
	asked      map[string]bool // operations that were answered with a success
}

const keeperOrg, keeperApp = "550e8400-e29b-41d4-a716-446655440001", "chat"

func newService(t *testing.T, db *ddbmem.DB, policy, namespace string) *service {
	t.Helper()
	s := &service{T: t, db: db, wire: &guarded{next: db, policy: readPolicy(t, policy), place: here}, asked: map[string]bool{}}
	client := db.Client(s.wire.through)
	s.client = client
	var err error
	s.keeper, err = budget.New(client, budget.Tables{Control: budgets.Control, Usage: budgets.Usage}, &budget.Options{
		Principal: operator, Models: map[string]string{"premium": premiumID, "cheap": cheapID},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.keeper.Close(context.WithoutCancel(t.Context()))) })
	s.repository, err = dynalimit.NewRepository(client, tableName, &dynalimit.RepositoryOptions{Namespace: namespace, Principal: operator})
	require.NoError(t, err)
	limiter, err := dynalimit.New(s.repository, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, limiter.Close(context.WithoutCancel(t.Context()))) })
	keys, err := credentials.NewKeySet(nil, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	s.keys = keys
	options := &credentials.Options{Keys: s, Principal: operator}
	s.store, err = credentials.New(client, budgets.Control, options)
	require.NoError(t, err)
	s.handler, err = budgethttp.New(s.keeper, s.store, &budgethttp.Options{
		Limiter: limiter, OnServed: func(_ context.Context, x budgethttp.Served) { s.asked[x.Route] = s.asked[x.Route] || x.Status < 300 },
	})
	require.NoError(t, err)
	root, err := credentials.New(db.Client(), budgets.Control, options) // keys are an administrator's
	require.NoError(t, err)
	key, err := root.CreateKey(t.Context(), "operations")
	require.NoError(t, err)
	s.key = key.Secret.Reveal()
	return s
}

// Keys implements credentials.KeySource.
func (s *service) Keys() *credentials.KeySet { return s.keys }

// ask is a request's answer.
func (s *service) ask(method, path, token string, body map[string]any, want ...int) map[string]any {
	s.Helper()
	text, err := json.Marshal(body)
	require.NoError(s, err)
	r := httptest.NewRequestWithContext(s.Context(), method, "/api/v1"+path, bytes.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	if token == s.key {
		r.Header.Set("X-API-Key", s.key)
	} else if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	require.Equal(s, append(want, 2)[0], w.Code/100, "%s %s: %s", method, path, w.Body)
	var out map[string]any
	_ = json.Unmarshal(w.Body.Bytes(), &out) // some have none
	return out
}

// secret fetches a client's secret.
func (s *service) secret(path string, byQuery bool, issued map[string]any) map[string]any {
	s.Helper()
	retrieval, _ := issued["retrieval_token"].(string)
	require.NotEmpty(s, retrieval, issued)
	if byQuery { // the older way
		return s.ask(http.MethodGet, path+"/credentials/secret?token="+retrieval, s.key, nil)
	}
	return s.ask(http.MethodPost, path+"/credentials/secret", s.key, map[string]any{"token": retrieval})
}

func (s *service) usage(n int) map[string]any {
	return map[string]any{
		"request_id": "00000000-0000-4000-8000-00000000000" + string(rune('0'+n)), "model_label": "premium",
		"tokens": map[string]any{"input": 1000, "output": 1500}, "status": "OK", "timestamp": time.Now().UTC().Format(time.RFC3339),
	}
}

// configured asks what an administrator asks, and returns credentials of an app and of its
// organisation.
func (s *service) configured() (client, organisation map[string]any) {
	org, app := "/orgs/"+keeperOrg, "/orgs/"+keeperOrg+"/apps/"+keeperApp
	quotas := map[string]any{"premium": 120_000, "cheap": 1_000_000}
	s.secret(org, false, s.ask(http.MethodPut, org, s.key, map[string]any{
		"org_name": "acme", "timezone": "Europe/Berlin", "quota_scope": "APP", "model_ordering": []any{"premium", "cheap"}, "quotas": quotas,
		"models": map[string]any{"premium": premiumID, "cheap": cheapID}, "sticky_fallback_enabled": true,
	}))
	s.secret(app, true, s.ask(http.MethodPut, app, s.key, map[string]any{"quotas": quotas}))
	s.ask(http.MethodPut, app, s.key, map[string]any{"app_name": "Chat", "quotas": quotas})
	s.ask(http.MethodGet, org, s.key, nil)
	s.ask(http.MethodGet, app, s.key, nil)
	s.ask(http.MethodGet, "/prices", s.key, nil)
	s.ask(http.MethodPut, app+"/override", s.key, map[string]any{"model_label": "cheap", "until": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	s.ask(http.MethodDelete, app+"/override", s.key, nil)
	s.ask(http.MethodPost, app+"/adjustments", s.key, map[string]any{
		"id": "0f8fad5b-d9cb-469f-a165-70867728950e", "model_label": "premium", "day": time.Now().UTC().Format("20060102"), "delta_usd_micros": 100, "reason": "invoice",
	})
	rotate := map[string]any{"grace_hours": 1}
	organisation = s.secret(org, true, s.ask(http.MethodPost, org+"/credentials/rotate", s.key, rotate))
	return s.secret(app, false, s.ask(http.MethodPost, app+"/credentials/rotate", s.key, rotate)), organisation
}

// login is an access token of a client.
func (s *service) login(client map[string]any) string {
	s.Helper()
	return s.ask(http.MethodPost, "/auth/token", "", map[string]any{"client_id": client["client_id"], "client_secret": client["client_secret"]})["access_token"].(string)
}

// used asks what a client asks, with many failed logins.
func (s *service) used(client, organisation map[string]any) {
	org, app := "/orgs/"+keeperOrg, "/orgs/"+keeperOrg+"/apps/"+keeperApp
	login := map[string]any{"client_id": client["client_id"], "client_secret": client["client_secret"]}
	granted := s.ask(http.MethodPost, "/auth/token", "", login)
	granted = s.ask(http.MethodPost, "/auth/refresh", "", map[string]any{"refresh_token": granted["refresh_token"]})
	token := granted["access_token"].(string)
	whole := s.login(organisation)
	s.ask(http.MethodGet, app+"/model-selection?force_check=true", token, nil)
	s.ask(http.MethodPost, app+"/usage", token, s.usage(1))
	s.ask(http.MethodPost, app+"/usage", token, s.usage(1))
	s.ask(http.MethodPost, app+"/usage/batch", token, map[string]any{"records": []any{s.usage(2), s.usage(3)}})
	s.ask(http.MethodGet, app+"/estimate?model_label=premium&input_tokens=10&max_tokens=10", token, nil)
	day := time.Now().UTC().Format("20060102")
	for _, scope := range []string{org, app} {
		with := map[string]string{org: whole, app: token}[scope]
		s.ask(http.MethodGet, scope+"/aggregates/today", with, nil)
		s.ask(http.MethodGet, scope+"/aggregates/"+day, with, nil)
		s.ask(http.MethodGet, scope+"/history?from="+day+"&to="+day, with, nil)
	}
	s.ask(http.MethodGet, "/health", "", nil)
	s.ask(http.MethodPost, app+"/usage", token, s.usage(5))
	s.ask(http.MethodGet, app+"/model-selection?force_check=true", token, nil)
	login["client_secret"] = "wrong"
	for range 10 {
		s.ask(http.MethodPost, "/auth/token", "", login, 4)
		elapse(20 * time.Second)
	}
	s.ask(http.MethodPost, "/auth/revoke", token, map[string]any{"token": token})
}

// listOf is a price list.
type listOf string

// Open implements pricefeed.Source.
func (l listOf) Open(context.Context, string) (io.ReadCloser, string, error) {
	return io.NopCloser(strings.NewReader(string(l))), "", nil
}

// beside does what the service does besides requests: it looks at the tables at the start,
// sweeps under a lease for days, and refreshes prices.
func (s *service) beside() {
	_, err := s.store.ListKeys(s.Context())
	require.NoError(s, err)
	_, err = s.client.GetItem(s.Context(), &dynamodb.GetItemInput{TableName: new(budgets.Usage), Key: map[string]types.AttributeValue{
		"PK": &types.AttributeValueMemberS{Value: "NOTHING"}, "SK": &types.AttributeValueMemberS{Value: "#"},
	}})
	require.NoError(s, err)
	_, err = admin.New(s.repository).Limits.GetConfig(s.Context(), admin.Scope{Everyone: true})
	require.NoError(s, err)
	for range 4 {
		elapse(26 * time.Hour)
		require.NoError(s, admin.New(s.repository).Alone(s.Context(), keeper.SweepLease, nil, func(ctx context.Context) error {
			elapse(time.Minute)
			_, err := s.keeper.Sweep(ctx)
			return err
		}))
	}
	const known, other = `{"model_id": "gpt-4o-mini", "input_usd_micros_per_1m": 180000, "output_usd_micros_per_1m": 600000}`, `{"model_id": "a-new-one", "input_usd_micros_per_1m": 1000000, "output_usd_micros_per_1m": 2000000}`
	refresh := func(models string) budget.PriceReport {
		r, err := pricefeed.New(s.keeper.Prices(), listOf("["+models+"]"), nil)
		require.NoError(s, err)
		report, err := r.Refresh(s.Context())
		require.NoError(s, err)
		return report
	}
	require.NotEmpty(s, refresh(known+","+other).Accepted)
	refresh(known)
}

// outage has DynamoDB not answer for a while, and logs a client in under another pepper.
func (s *service) outage(client map[string]any) {
	s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
	for range 20 {
		_, _ = s.keeper.RecommendFresh(s.Context(), keeperOrg, keeperApp)
		_, _ = s.keeper.Setup().GetApp(s.Context(), keeperOrg, keeperApp)
	}
	elapse(time.Minute)
	s.db.SetFaults(nil)
	elapse(time.Minute)
	now := s.store.Now()
	rotated, err := s.keys.Rotated(nil, now, time.Hour)
	require.NoError(s, err)
	s.keys = rotated
	elapse(48 * time.Hour)
	s.login(client)
}

// decode reads an answer into a value.
func (s *service) decode(answer map[string]any, into any) {
	text, err := json.Marshal(answer)
	require.NoError(s, err)
	require.NoError(s, json.Unmarshal(text, into))
}

// ended deletes what was configured.
func (s *service) ended() {
	app := "/orgs/" + keeperOrg + "/apps/" + keeperApp
	s.ask(http.MethodDelete, app, s.key, nil)
	s.ask(http.MethodDelete, "/orgs/"+keeperOrg, s.key, nil)
}

func inServiceWorld(t *testing.T, policy, namespace string, test func(s *service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New()
		t.Cleanup(db.Close)
		root, err := dynalimit.NewRepository(db.Client(), tableName, &dynalimit.RepositoryOptions{Principal: operator})
		require.NoError(t, err)
		require.NoError(t, root.CreateTable(t.Context()))
		if namespace != "" {
			require.NoError(t, admin.New(root).Namespaces.Register(t.Context(), namespace))
		}
		k, err := budget.New(db.Client(), budget.Tables{Control: budgets.Control, Usage: budgets.Usage}, &budget.Options{Principal: operator})
		require.NoError(t, err)
		require.NoError(t, k.Setup().CreateTables(t.Context()))
		require.NoError(t, k.Close(t.Context()))
		test(newService(t, db, policy, namespace))
	})
}

// served is everything that the service does, and what IAM was asked for it.
func (s *service) served() []iamCall {
	client, organisation := s.configured()
	s.used(client, organisation)
	s.beside()
	s.outage(client)
	s.ended()
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	s.decode(s.ask(http.MethodGet, "/openapi.json", "", nil), &document)
	for path, operations := range document.Paths {
		for _, operation := range operations {
			assert.True(s, s.asked[operation.OperationID], "%s %s was not asked, so nobody knows what it needs", operation.OperationID, path)
		}
	}
	return s.wire.seen()
}

// keeperPolicy is the policy of the service here.
func keeperPolicy(t *testing.T, namespace string, at Place) string {
	t.Helper()
	return policyOf(t, "Keeper", Options{Budget: budgets, Keeper: true, Namespace: namespace}, at)
}

// TestKeeperRoleCanDoWhatItMust: under its policy the service answers every route of its
// document, sweeps, refreshes prices and notices an outage; and each statement, action,
// resource, key and attribute of the policy is there for something.
func TestKeeperRoleCanDoWhatItMust(t *testing.T) {
	for _, namespace := range namespaces {
		t.Run(namespace, func(t *testing.T) {
			policy := keeperPolicy(t, namespace, here)
			inServiceWorld(t, policy, namespace, func(s *service) {
				world{s.T, s.db}.writesKinds(s.wire, schema.OwnKeys(namespace))
				calls := s.served()
				for _, c := range calls {
					require.True(s, s.wire.policy.allows(c), "%+v", c)
				}
				needed(s.T, policy, calls)
			})
		})
	}
}

// hostileToKeepers are calls that somebody who broke into the service could construct, and
// must not be allowed.
func hostileToKeepers() []iamCall {
	const limits = "arn:aws:dynamodb:us-east-1:123456789012:table/limits"
	call := func(action, table, key string, names ...string) iamCall {
		c := iamCall{actionsPrefix + action, table, map[string][]string{}}
		if key != "" {
			c.Context[leadingKeys] = []string{key}
		}
		if names != nil {
			c.Context[attributes] = append([]string{"PK", "SK"}, names...)
		}
		return c
	}
	calls := []iamCall{
		call("PutItem", controlARN, "KEYRING", "hash"), call("ConditionCheckItem", controlARN, "KEYRING"), call("UpdateItem", controlARN, "KEYRING", "hash"), call("DeleteItem", controlARN, "KEYRING"), // provisioning keys
		call("UpdateItem", controlARN, "AUDIT#ORG#"+org, "details"), call("DeleteItem", controlARN, "AUDIT#ORG#"+org),
		call("UpdateItem", controlARN, "PRICE#"+premiumID, "rows"), call("DeleteItem", controlARN, "PRICE#"+premiumID),
		call("DeleteItem", controlARN, "REVOKED#TOKEN#1"), call("UpdateItem", controlARN, "REVOKED#TOKEN#1", "ttl_epoch"), call("DeleteItem", controlARN, "CLIENT#org-"+org),
		call("PutItem", limits, "OWN#ENTITY#login:1", "l_rpm_cp"), call("UpdateItem", limits, "OWN#ENTITY#login:1", "l_rpm_cp"), call("DeleteItem", limits, "OWN#ENTITY#login:1"),
		call("UpdateItem", limits, "ENTITY#1", "b_rpm_tk"), call("UpdateItem", limits, "eu/ENTITY#1", "b_rpm_tk"), call("GetItem", limits, "ENTITY#1"), call("GetItem", limits, "RESOURCE#gpt-4"), // users' own
		call("UpdateItem", limits, "SYSTEM#", "b_rpm_tk"), call("PutItem", limits, "SYSTEM#"), call("PutItem", limits, "TAIL#usage"), call("DeleteItem", limits, "KEEPER-SWEEP#"),
		call("UpdateItem", limits, "us/OWN#ENTITY#login:1", "b_rpm_tk"), call("GetItem", limits, "us/ENTITY#1"), call("GetItem", limits, "AUDIT#ENTITY#1"),
		{"secretsmanager:GetSecretValue", "arn:aws:secretsmanager:us-east-1:123456789012:secret:other-AbCdEf", nil},
		{"secretsmanager:PutSecretValue", keysetARN, nil},
	}
	for _, bounded := range []struct{ action, table string }{ // of which nobody says where they write, or what
		{"PutItem", controlARN}, {"UpdateItem", controlARN}, {"DeleteItem", controlARN}, {"ConditionCheckItem", controlARN}, {"GetItem", limits}, {"BatchGetItem", limits}, {"PutItem", limits},
	} {
		calls = append(calls, call(bounded.action, bounded.table, "", "b_rpm_tk"))
	}
	calls = append(calls, call("ConditionCheckItem", limits, "us/SYSTEM#", "state"), call("ConditionCheckItem", limits, "", "state"))
	for _, prefix := range []string{"", "eu/"} {
		calls = append(calls, call("UpdateItem", limits, prefix+"OWN#ENTITY#login:1"), call("UpdateItem", limits, prefix+"OWN#ENTITY#login:1", "l_rpm_cp"))
	}
	calls = append(calls, call("UpdateItem", limits, "", "b_rpm_tk"))
	for _, table := range []string{controlARN, usageOf, limits} {
		for _, action := range []string{"BatchWriteItem", "CreateTable", "DeleteTable", "UpdateTable", "UpdateTimeToLive", "PartiQLUpdate", "PartiQLDelete", "ExportTableToPointInTime"} {
			calls = append(calls, call(action, table, "ORG#"+org))
		}
	}
	return append(calls, call("Scan", limits, ""), call("Query", limits, "ENTITY#1"), call("PutItem", usageOf+"2", "ORG#"+org))
}

const keysetARN = "arn:aws:secretsmanager:us-east-1:123456789012:secret:keeper/keys-AbCdEf"

// TestKeeperRoleIsRefusedWhatIsHostile: who holds the role can make no provisioning key,
// neither rewrite the history of changes nor take back a revocation, and reads one
// secret; each condition of the policy is there to refuse something.
func TestKeeperRoleIsRefusedWhatIsHostile(t *testing.T) {
	at := here
	at.Keyset = keysetARN
	for _, namespace := range namespaces {
		text := keeperPolicy(t, namespace, at)
		policy, all := readPolicy(t, text), readPolicy(t, everything)
		for _, c := range hostileToKeepers() {
			assert.True(t, all.allows(c))
			assert.False(t, policy.allows(c), "%+v", c)
		}
		for what, loose := range loosenings(t, text) {
			assert.True(t, slices.ContainsFunc(hostileToKeepers(), loose.allows), "without %s nothing more is allowed", what)
		}
		assert.True(t, policy.allows(iamCall{"secretsmanager:GetSecretValue", keysetARN, nil}))
		bare := keeperPolicy(t, namespace, here)
		assert.NotContains(t, bare, "secretsmanager")
		assert.NotContains(t, bare, "s3:")
	}
}
