package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/table"
)

func TestEntityLifecycle(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, &dynalimit.RepositoryOptions{Now: noon})
		want := admin.Entity{
			ID: "key-1", Name: "Key one", ParentID: "proj-1", Cascade: true,
			Plan: "pro", Metadata: json.RawMessage(`{"team": "search", "empty": "", "list": [1.50, null]}`), CreatedAt: noon(), Version: 1,
		}
		_, err := admin.New(r).Entities.Get(t.Context(), "key-1")
		require.ErrorIs(t, err, admin.ErrNotFound)
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), want))
		got, err := admin.New(r).Entities.Get(t.Context(), "key-1")
		require.NoError(t, err)
		assert.Equal(t, want, got)

		err = admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "key-1", Name: "another"})
		require.ErrorIs(t, err, admin.ErrExists)
		assert.ErrorContains(t, err, `"key-1"`)
		got, err = admin.New(r).Entities.Get(t.Context(), "key-1")
		require.NoError(t, err)
		assert.Equal(t, want, got, "it is as it was")

		children, err := collect(admin.New(r).Entities.Children(t.Context(), "proj-1"))
		require.NoError(t, err)
		assert.Equal(t, []admin.Entity{want}, children)

		for range 2 {
			require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "key-1"))
		}
		_, err = admin.New(r).Entities.Get(t.Context(), "key-1")
		require.ErrorIs(t, err, admin.ErrNotFound)
		children, err = collect(admin.New(r).Entities.Children(t.Context(), "proj-1"))
		require.NoError(t, err)
		assert.Empty(t, children)
	})
}

func TestCreateEntityRefusesBadInput(t *testing.T) {
	e := memEngine(t)
	r := e.repository(t, nil)
	before := e.db.Meter()
	for field, entity := range map[string]admin.Entity{
		"entity.Plan":             {ID: "a", Plan: "no plan"},
		"entity.ID":               {},
		"entity.ID (hash)":        {ID: "a#b"},
		"entity.ParentID":         {ID: "a", ParentID: "b c"},
		"entity.Cascade":          {ID: "a", Cascade: true},
		"entity.ParentID (self)":  {ID: "a", ParentID: "a"},
		"entity.Name":             {ID: "a", Name: strings.Repeat("x", longestName+1)},
		"entity.Name (UTF-8)":     {ID: "a", Name: "\xff"},
		"entity.Metadata (none)":  {ID: "a", Metadata: json.RawMessage(" ")},
		"entity.Metadata (half)":  {ID: "a", Metadata: json.RawMessage(`{"k":`)},
		"entity.Metadata (two)":   {ID: "a", Metadata: json.RawMessage(`{} {}`)},
		"entity.Metadata (large)": {ID: "a", Metadata: json.RawMessage(`"` + strings.Repeat("x", schema.MaxMetadata-1) + `"`)},
		"entity.Metadata (deep)":  {ID: "a", Metadata: json.RawMessage(strings.Repeat("[", 25) + strings.Repeat("]", 25))},
		"entity.Metadata (UTF-8)": {ID: "a", Metadata: json.RawMessage("\"\xff\"")},
	} {
		for _, err := range []error{admin.New(r).Entities.Create(t.Context(), entity), second(admin.New(r).Entities.Update(t.Context(), entity))} {
			var invalid *dynalimit.ValidationError
			require.ErrorAs(t, err, &invalid, field)
			assert.Contains(t, field, invalid.Field)
		}
	}
	assert.True(t, isValidation(second(admin.New(r).Entities.Update(t.Context(), admin.Entity{ID: "a", Version: -1}))))
	assert.Zero(t, e.db.Meter().Sub(before).Requests(), "nothing is asked, nothing is written")
	for _, err := range []error{admin.New(r).Entities.Delete(t.Context(), ""), second(admin.New(r).Entities.Get(t.Context(), "")), second(collect(admin.New(r).Entities.Children(t.Context(), "")))} {
		assert.True(t, isValidation(err))
	}
}

func TestCreateEntityRefusesCycles(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "b", ParentID: "c"}))
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "c", ParentID: "a"}))
		err := admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "a", ParentID: "b"})
		require.ErrorContains(t, err, "makes a cycle: a → b → c → a")
		assert.True(t, isValidation(err))
		_, err = admin.New(r).Entities.Get(t.Context(), "a")
		require.ErrorIs(t, err, admin.ErrNotFound, "nothing was written")
	})
}

func TestCreateEntityRefusesDeepChains(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	for i := 1; i < schema.MaxDepth; i++ {
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: fmt.Sprint(i + 1), ParentID: fmt.Sprint(i)}))
	}
	err := admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "9", ParentID: "8"})
	require.ErrorContains(t, err, "deeper than 8 levels: 9 → 8 → 7 → 6")
}

// Children may be made before their parents.
func TestCreateEntityRefusesDeepChainsMadeBottomUp(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		for i := range schema.MaxDepth - 1 {
			require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: fmt.Sprint("e", i), ParentID: fmt.Sprint("e", i+1)}))
		}
		err := admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "e7", ParentID: "e8"})
		require.ErrorContains(t, err, "makes a chain deeper than 8 levels: e0 and others are 9 levels below the top")
		require.True(t, isValidation(err))
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "e7"}), "the top of eight")
	})
}

func TestCreateEntityWithALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		e.db.SetFaults(firstOf("TransactWriteItems", 1, ddbmem.Fault{Lose: true}))
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "a"}), "our own record is no ErrExists")
	})
}

func TestDeleteEntityRemovesAllItOwns(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "a"}))
		for _, resource := range []string{"", "gpt-4", "claude-3"} {
			require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "a", Resource: resource}, oneLimit))
			require.NoError(t, admin.New(r).Limits.Set(t.Context(), admin.Scope{Entity: "b", Resource: resource}, oneLimit))
		}
		for i := range 2*table.PageSize + 10 {
			put(t, r, shared.Of(r).Keys.Bucket("a", fmt.Sprintf("r-%04d", i)).Attributes())
		}
		usage := schema.Key{PK: shared.Of(r).Keys.Entity("a"), SK: "#USAGE#gpt-4#2026-01-01T00:00:00Z"}
		put(t, r, shared.Of(r).Keys.Bucket("b", "gpt-4").Attributes(), usage.Attributes())

		require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "a"))
		assert.Equal(t, []schema.Key{usage}, partition(t, r, "a"), "what was used stays known")
		assert.Len(t, partition(t, r, "b"), 4)
		counts, err := shared.Of(r).Table.Get(t.Context(), "test", shared.Of(r).Keys.EntityResources())
		require.NoError(t, err)
		assert.Equal(t, schema.Number(1), counts["gpt-4"])
	})
}

func TestDeleteEntityRefusesParents(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		for _, id := range []string{"k1", "k2"} {
			require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: id, ParentID: "p"}))
		}
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "p"}))
		err := admin.New(r).Entities.Delete(t.Context(), "p")
		require.ErrorContains(t, err, `"p" has children (2)`)
		assert.True(t, isValidation(err))
		require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "k1"))
		require.ErrorContains(t, admin.New(r).Entities.Delete(t.Context(), "p"), `"p" has children (1)`)
		_, err = admin.New(r).Entities.Get(t.Context(), "p")
		assert.NoError(t, err)
		require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "k2"))
		require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "p"))
	})
}

func TestDeleteEntitySendsUnprocessedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		require.NoError(t, admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "a"}))
		for i := range 30 {
			put(t, r, shared.Of(r).Keys.Bucket("a", fmt.Sprint(i)).Attributes())
		}
		e.db.SetFaults(unprocessed(1 << 40))
		err := admin.New(r).Entities.Delete(t.Context(), "a")
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		assert.ErrorContains(t, err, "25 of 25 writes still unprocessed after 8 tries")
		assert.Len(t, partition(t, r, "a"), 31)
		e.db.SetFaults(unprocessed(3))
		require.NoError(t, admin.New(r).Entities.Delete(t.Context(), "a"))
		assert.Empty(t, partition(t, r, "a"))
	})
}

func TestChildrenFollowsPagesAndStops(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		var want []string
		for i := range 2*table.PageSize + 10 {
			id := fmt.Sprintf("key-%04d", i)
			want = append(want, id)
			put(t, r, schema.EntityRecord{ID: id, ParentID: "p"}.Item(shared.Of(r).Keys, nil))
		}
		children, err := collect(admin.New(r).Entities.Children(t.Context(), "p"))
		require.NoError(t, err)
		assert.Equal(t, want, ids(children))

		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		var last error
		for _, err := range admin.New(r).Entities.Children(ctx, "p") {
			if last = err; err == nil {
				seen++
				cancel()
			}
		}
		cancel()
		require.ErrorIs(t, last, context.Canceled)
		assert.Equal(t, table.PageSize, seen, "the page at hand is finished")
	})
}

func TestEntityRequests(t *testing.T) {
	e := memEngine(t)
	require.NoError(t, e.open(t, "limits", nil).CreateTable(t.Context()))
	wire := record(e.db)
	r, err := dynalimit.NewRepository(e.client(wire.Through), "limits", &dynalimit.RepositoryOptions{Principal: tester, Now: noon})
	require.NoError(t, err)
	require.NoError(t, shared.Of(r).Layout.Check(t.Context()))
	wire.Take()
	for _, step := range []struct {
		golden string
		do     func() error
	}{
		{"create_entity", func() error {
			return admin.New(r).Entities.Create(t.Context(), admin.Entity{ID: "key-1", Name: "Key one", ParentID: "proj-1", Cascade: true, Metadata: json.RawMessage(`{"team":"search"}`)})
		}},
		{"update_entity", func() error {
			return second(admin.New(r).Entities.Update(t.Context(), admin.Entity{ID: "key-1", Name: "Key 1", ParentID: "proj-1", Plan: "pro", Version: 1}))
		}},
		{"get_entity", func() error { return second(admin.New(r).Entities.Get(t.Context(), "key-1")) }},
		{"children", func() error { return second(collect(admin.New(r).Entities.Children(t.Context(), "proj-1"))) }},
		{"delete_entity", func() error {
			_, err := e.client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(r.Table()), Item: shared.Of(r).Keys.Bucket("key-1", "gpt-4").Attributes()})
			require.NoError(t, err)
			return admin.New(r).Entities.Delete(t.Context(), "key-1")
		}},
		{"delete_entity_absent", func() error { return admin.New(r).Entities.Delete(t.Context(), "key-1") }},
	} {
		require.NoError(t, step.do(), step.golden)
		assertGolden(t, step.golden, wire.Take())
	}
}
