package admin_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/fault"
)

// life is what the events of a namespace tell, oldest first.
func life(t *testing.T, r *dynalimit.Repository, name string) (actions []string) {
	t.Helper()
	for _, e := range trail(t, r, audit.Query{Target: audit.Namespace(name)}) {
		actions = append(actions, e.Action)
	}
	return actions
}

func TestNamespaceLife(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		clock := newHandClock()
		r := e.repository(t, &dynalimit.RepositoryOptions{Now: clock.now})
		ctx := t.Context()
		for _, step := range []struct {
			name, by string
			change   func(*dynalimit.Repository) error
			want     fault.NamespaceState // the record's afterwards; "" for an error
			quiet    bool                 // nothing changes
		}{
			{name: "delete what is not there", change: func(r *dynalimit.Repository) error { return admin.New(r).Namespaces.Delete(ctx, "eu") }},
			{name: "register", by: "ann", change: func(r *dynalimit.Repository) error { return admin.New(r).Namespaces.Register(ctx, "eu") }, want: fault.NamespaceActive},
			{name: "register again", change: func(r *dynalimit.Repository) error { return admin.New(r).Namespaces.Register(ctx, "eu") }},
			{name: "delete", by: "ben", change: func(r *dynalimit.Repository) error { return admin.New(r).Namespaces.Delete(ctx, "eu") }, want: fault.NamespaceDeleted},
			{name: "delete again", change: func(r *dynalimit.Repository) error { return admin.New(r).Namespaces.Delete(ctx, "eu") }, want: fault.NamespaceDeleted, quiet: true},
			{name: "register what is deleted", change: func(r *dynalimit.Repository) error { return admin.New(r).Namespaces.Register(ctx, "eu") }},
		} {
			clock.advance(time.Second)
			known, _ := collect(admin.New(r).Namespaces.List(ctx))
			err := step.change(r.As(cmp.Or(step.by, tester)))
			after, listErr := collect(admin.New(r).Namespaces.List(ctx))
			require.NoError(t, listErr)
			if step.want == "" || step.quiet {
				assert.Equal(t, step.want == "", err != nil, "%s: %v", step.name, err)
				assert.Equal(t, known, after, step.name)
				continue
			}
			require.NoError(t, err, step.name)
			require.Len(t, after, 1, step.name)
			assert.Equal(t, admin.Namespace{
				Name: "eu", State: step.want, RegisteredBy: "ann", RegisteredAt: after[0].RegisteredAt, ChangedBy: step.by, ChangedAt: clock.now().UTC(),
			}, after[0], step.name)
		}
		assert.Equal(t, []string{"namespace_registered", "namespace_deleted"}, life(t, r, "eu"))
		inactive(t, admin.New(r).Namespaces.Delete(ctx, "us"))
		require.NoError(t, admin.New(r).Namespaces.Register(ctx, "us"))
		require.ErrorIs(t, admin.New(r).Namespaces.Register(ctx, "us"), admin.ErrExists)
	})
}

func TestNamespacesAreListed(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	want := make([]string, 0, 150)
	for i := range 150 { // more than a page
		name := "t" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		want = append(want, name)
		require.NoError(t, admin.New(r).Namespaces.Register(t.Context(), name))
	}
	all, err := collect(admin.New(r).Namespaces.List(t.Context()))
	require.NoError(t, err)
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = n.Name
	}
	assert.Equal(t, want, names)
	for _, err := range admin.New(r).Namespaces.List(t.Context()) {
		require.NoError(t, err)
		break
	}
}

func TestNamespacesAreAdministeredFromOutside(t *testing.T) {
	e := memEngine(t)
	eu := e.namespaced(t, e.repository(t, nil).Table(), "eu", nil)
	for _, err := range []error{
		admin.New(eu).Namespaces.Register(t.Context(), "us"), admin.New(eu).Namespaces.Delete(t.Context(), "eu"), admin.New(eu).Namespaces.Purge(t.Context(), "eu", nil),
		second(collect(admin.New(eu).Namespaces.List(t.Context()))),
	} {
		var v *dynalimit.ValidationError
		require.ErrorAs(t, err, &v)
		assert.Equal(t, "repository", v.Field)
	}
	bare := e.open(t, eu.Table(), nil)
	for _, name := range []string{"", "a/b", "a#b", "/", "é"} {
		require.ErrorContains(t, admin.New(bare).Namespaces.Register(t.Context(), name), "name")
	}
	require.ErrorContains(t, admin.New(bare.As("")).Namespaces.Delete(t.Context(), "eu"), "principal")
}

// A namespace is known by its record at once, to whoever administers all of them or is bound
// to it.
func TestGetNamespace(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		whole := e.repository(t, nil).As("ann")
		n, err := admin.New(whole).Namespaces.Get(t.Context(), "eu")
		require.NoError(t, err)
		assert.Zero(t, n)
		require.NoError(t, admin.New(whole).Namespaces.Register(t.Context(), "eu"))
		eu := e.open(t, whole.Table(), &dynalimit.RepositoryOptions{Namespace: "eu"})
		for _, r := range []*dynalimit.Repository{whole, eu} {
			n, err = admin.New(r).Namespaces.Get(t.Context(), "eu")
			require.NoError(t, err)
			assert.Equal(t, "eu", n.Name)
			assert.Equal(t, fault.NamespaceActive, n.State)
			assert.Equal(t, "ann", n.RegisteredBy)
			assert.WithinDuration(t, n.RegisteredAt, n.ChangedAt, 0)
		}
		require.NoError(t, admin.New(whole).Namespaces.Delete(t.Context(), "eu"))
		n, err = admin.New(eu).Namespaces.Get(t.Context(), "eu")
		require.NoError(t, err)
		assert.Equal(t, fault.NamespaceDeleted, n.State)
		for _, bad := range []func() (admin.Namespace, error){
			func() (admin.Namespace, error) { return admin.New(eu).Namespaces.Get(t.Context(), "us") },
			func() (admin.Namespace, error) { return admin.New(whole).Namespaces.Get(t.Context(), "e/u") },
			func() (admin.Namespace, error) { return admin.New(whole).Namespaces.Get(t.Context(), "") },
		} {
			_, err := bad()
			require.ErrorAs(t, err, new(*dynalimit.ValidationError))
		}
	})
}
