package manifest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a table, with whoever changes it by hand.
type world struct {
	db   *ddbmem.DB
	repo *dynalimit.Repository
}

func newWorld(t *testing.T, namespace string) *world {
	t.Helper()
	w := &world{db: ddbmem.New()}
	t.Cleanup(func() { w.db.Close() })
	whole := w.open(t, "")
	require.NoError(t, whole.CreateTable(t.Context()))
	if namespace != "" {
		require.NoError(t, admin.New(whole).Namespaces.Register(t.Context(), namespace))
	}
	w.repo = w.open(t, namespace)
	return w
}

func (w *world) open(t *testing.T, namespace string) *dynalimit.Repository {
	t.Helper()
	repo, err := dynalimit.NewRepository(w.db.Client(), "limits", &dynalimit.RepositoryOptions{Namespace: namespace, Principal: "ann"})
	require.NoError(t, err)
	return repo
}

func parsed(t *testing.T, text string) *Manifest {
	t.Helper()
	m, err := Parse("limits.yaml", []byte(text))
	require.NoError(t, err)
	return m
}

func (w *world) plan(t *testing.T, m *Manifest, o Options) Plan {
	t.Helper()
	live, err := Read(t.Context(), Of(admin.New(w.repo)), m)
	require.NoError(t, err)
	return Compare(m, live, o)
}

// apply plans and applies; everything has to work.
func (w *world) apply(t *testing.T, text string, o Options) Plan {
	t.Helper()
	m := parsed(t, text)
	p := w.plan(t, m, o)
	out, err := Apply(t.Context(), Of(admin.New(w.repo)), p, func(int, int) {})
	require.NoError(t, err)
	require.Empty(t, out.Failed)
	require.Equal(t, len(p.Changes)-p.Count(Refuse), out.Done)
	require.Zero(t, out.Left)
	if p.Count(Refuse) == 0 {
		w.settled(t, m, o)
	}
	return p
}

// settled fails unless a plan is empty.
func (w *world) settled(t *testing.T, m *Manifest, o Options) {
	t.Helper()
	require.Empty(t, lines(w.plan(t, m, o)))
}

// lines is a plan in short: "update limits of plan pro: rpm.capacity 1 -> 2".
func lines(p Plan) (out []string) {
	for _, c := range p.Changes {
		line := string(c.Action) + " " + c.What()
		for i, f := range c.Fields {
			line += fmt.Sprintf("%s %s %s -> %s", []string{",", ":"}[btoi(i == 0)], f.Name, f.From, f.To)
		}
		if c.Note != "" {
			line += "; " + c.Note
		}
		out = append(out, line)
	}
	return out
}

// says is what the table says, as a manifest.
func (w *world) says(t *testing.T) string {
	t.Helper()
	live, err := Read(t.Context(), Of(admin.New(w.repo)), nil)
	require.NoError(t, err)
	m, notes := Export(live, "x", "", false)
	require.Empty(t, notes)
	var b strings.Builder
	require.NoError(t, Write(&b, m, nil, nil))
	return b.String()
}

// raw changes an attribute of an item as another tool could.
func (w *world) raw(t *testing.T, key schema.Key, name string, value types.AttributeValue) {
	t.Helper()
	_, err := w.db.Client().UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("limits"), Key: key.Attributes(), UpdateExpression: aws.String("SET #n = :v"),
		ExpressionAttributeNames: map[string]string{"#n": name}, ExpressionAttributeValues: map[string]types.AttributeValue{":v": value},
	})
	require.NoError(t, err)
}

func set(t *testing.T, r *dynalimit.Repository, at admin.Scope, c admin.LimitConfig) {
	t.Helper()
	if c.Version == 0 {
		c.Version = admin.AnyVersion
	}
	_, err := admin.New(r).Limits.SetConfig(context.WithoutCancel(t.Context()), at, c)
	require.NoError(t, err)
}

func rpm(n int64) admin.LimitConfig {
	return admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", n)}}
}
