package dynalimit

import (
	"cmp"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// life is what the events of a namespace tell, oldest first.
func life(t *testing.T, r *Repository, name string) (actions []string) {
	t.Helper()
	for _, e := range trail(t, r, AuditQuery{Target: AuditNamespace(name)}) {
		actions = append(actions, e.Action)
	}
	return actions
}

func TestNamespaceLife(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		clock := newHandClock()
		r := e.repository(t, &RepositoryOptions{Now: clock.now})
		ctx := t.Context()
		for _, step := range []struct {
			name, by string
			change   func(*Repository) error
			want     NamespaceState // the record's afterwards; "" for an error
			quiet    bool           // nothing changes
		}{
			{name: "delete what is not there", change: func(r *Repository) error { return r.DeleteNamespace(ctx, "eu") }},
			{name: "recover what is not there", change: func(r *Repository) error { return r.RecoverNamespace(ctx, "eu") }},
			{name: "register", by: "ann", change: func(r *Repository) error { return r.RegisterNamespace(ctx, "eu") }, want: NamespaceActive},
			{name: "register again", change: func(r *Repository) error { return r.RegisterNamespace(ctx, "eu") }},
			{name: "recover what is active", change: func(r *Repository) error { return r.RecoverNamespace(ctx, "eu") }, want: NamespaceActive, quiet: true},
			{name: "delete", by: "ben", change: func(r *Repository) error { return r.DeleteNamespace(ctx, "eu") }, want: NamespaceDeleted},
			{name: "delete again", change: func(r *Repository) error { return r.DeleteNamespace(ctx, "eu") }, want: NamespaceDeleted, quiet: true},
			{name: "register what is deleted", change: func(r *Repository) error { return r.RegisterNamespace(ctx, "eu") }},
			{name: "recover", by: "eve", change: func(r *Repository) error { return r.RecoverNamespace(ctx, "eu") }, want: NamespaceActive},
		} {
			clock.advance(time.Second)
			known, _ := collect(r.Namespaces(ctx))
			err := step.change(r.As(cmp.Or(step.by, tester)))
			after, listErr := collect(r.Namespaces(ctx))
			require.NoError(t, listErr)
			if step.want == "" || step.quiet {
				assert.Equal(t, step.want == "", err != nil, "%s: %v", step.name, err)
				assert.Equal(t, known, after, step.name)
				continue
			}
			require.NoError(t, err, step.name)
			require.Len(t, after, 1, step.name)
			assert.Equal(t, Namespace{
				Name: "eu", State: step.want, RegisteredBy: "ann", RegisteredAt: after[0].RegisteredAt, ChangedBy: step.by, ChangedAt: clock.now().UTC(),
			}, after[0], step.name)
		}
		assert.Equal(t, []string{"namespace_registered", "namespace_deleted", "namespace_recovered"}, life(t, r, "eu"))
		require.ErrorIs(t, r.RegisterNamespace(ctx, "eu"), ErrExists)
		inactive(t, r.DeleteNamespace(ctx, "us"))
	})
}

func TestNamespacesAreListed(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	want := make([]string, 0, 150)
	for i := range 150 { // more than a page
		name := "t" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		want = append(want, name)
		require.NoError(t, r.RegisterNamespace(t.Context(), name))
	}
	all, err := collect(r.Namespaces(t.Context()))
	require.NoError(t, err)
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = n.Name
	}
	assert.Equal(t, want, names)
	for _, err := range r.Namespaces(t.Context()) {
		require.NoError(t, err)
		break
	}
}

func TestNamespacesAreAdministeredFromOutside(t *testing.T) {
	e := memEngine(t)
	eu := e.namespaced(t, e.repository(t, nil).table, "eu", nil)
	for _, err := range []error{
		eu.RegisterNamespace(t.Context(), "us"), eu.DeleteNamespace(t.Context(), "eu"), eu.RecoverNamespace(t.Context(), "eu"),
		second(collect(eu.Namespaces(t.Context()))),
	} {
		var v *ValidationError
		require.ErrorAs(t, err, &v)
		assert.Equal(t, "repository", v.Field)
	}
	bare := e.open(t, eu.table, nil)
	for _, name := range []string{"", "a/b", "a#b", "/", "é"} {
		require.ErrorContains(t, bare.RegisterNamespace(t.Context(), name), "name")
	}
	require.ErrorContains(t, bare.As("").DeleteNamespace(t.Context(), "eu"), "principal")
}

// Whoever changes a namespace, and whatever happens to the requests: the record has one
// event for each of its versions.
func TestNamespaceChangesHaveTheirEvents(t *testing.T) {
	for name, fault := range map[string]ddbmem.Fault{
		"lost answers": {Lose: true},
		"lost calls":   {Drop: true},
		"conflicts":    {Error: cancelled("TransactionConflict", "None")},
		"throttled":    {Error: &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memEngine(t)
				r := e.repository(t, nil)
				require.NoError(t, r.RegisterNamespace(t.Context(), "eu"))
				var asked atomic.Int64
				e.db.SetFaults(func(req *ddbmem.Request) ddbmem.Fault {
					if req.Operation == "TransactWriteItems" && asked.Add(1)%3 != 0 {
						return fault
					}
					return ddbmem.Fault{}
				})
				workers, ctx := errgroup.WithContext(t.Context())
				for i := range 4 {
					workers.Go(func() error {
						for range 5 {
							if i%2 == 0 {
								_ = r.DeleteNamespace(ctx, "eu")
							} else {
								_ = r.RecoverNamespace(ctx, "eu")
							}
						}
						return nil
					})
				}
				require.NoError(t, workers.Wait())
				e.db.SetFaults(nil)
				actions := life(t, r, "eu")
				key, _ := schema.NewKeys("eu").Namespace()
				record, err := r.store.Get(t.Context(), "test", key)
				require.NoError(t, err)
				assert.Equal(t, int64(len(actions)), numberOf(record, "version"))
				require.Greater(t, len(actions), 1)
				for i, action := range actions[1:] {
					want := "namespace_deleted"
					if i%2 == 1 {
						want = "namespace_recovered"
					}
					assert.Equal(t, want, action, i)
				}
			})
		})
	}
}

// A namespace is known by its record at once, to whoever administers all of them or is bound
// to it.
func TestGetNamespace(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		whole := e.repository(t, nil).As("ann")
		n, err := whole.GetNamespace(t.Context(), "eu")
		require.NoError(t, err)
		assert.Zero(t, n)
		require.NoError(t, whole.RegisterNamespace(t.Context(), "eu"))
		eu := e.open(t, whole.table, &RepositoryOptions{Namespace: "eu"})
		for _, r := range []*Repository{whole, eu} {
			n, err = r.GetNamespace(t.Context(), "eu")
			require.NoError(t, err)
			assert.Equal(t, "eu", n.Name)
			assert.Equal(t, NamespaceActive, n.State)
			assert.Equal(t, "ann", n.RegisteredBy)
			assert.WithinDuration(t, n.RegisteredAt, n.ChangedAt, 0)
		}
		require.NoError(t, whole.DeleteNamespace(t.Context(), "eu"))
		n, err = eu.GetNamespace(t.Context(), "eu")
		require.NoError(t, err)
		assert.Equal(t, NamespaceDeleted, n.State)
		for _, bad := range []func() (Namespace, error){
			func() (Namespace, error) { return eu.GetNamespace(t.Context(), "us") },
			func() (Namespace, error) { return whole.GetNamespace(t.Context(), "e/u") },
			func() (Namespace, error) { return whole.GetNamespace(t.Context(), "") },
		} {
			_, err := bad()
			require.ErrorAs(t, err, new(*ValidationError))
		}
	})
}
