package manifest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The manifest of a table changes nothing but who manages it.
func TestWhatIsExportedPlansNothingButOwnership(t *testing.T) {
	w := newWorld(t, "tenant")
	w.apply(t, strings.ReplaceAll(whole, "0042", "'0042'"), Options{})
	set(t, w.repo, admin.Scope{Plan: "by-hand", Resource: "a/b"}, admin.LimitConfig{Unlimited: true, Blocked: true})
	require.NoError(t, admin.New(w.repo).Entities.Create(t.Context(), admin.Entity{ID: "by:hand", ParentID: "nowhere", Metadata: []byte(`{"z":[1e2,{"y":"\u0000"}],"a":null}`)}))
	require.NoError(t, admin.New(w.repo).Entities.Create(t.Context(), admin.Entity{ID: "nothing"}))
	few := rpm(3)
	few.Only = true
	set(t, w.repo, admin.Scope{Entity: "nothing"}, few)

	live, err := Read(t.Context(), Of(admin.New(w.repo)), nil)
	require.NoError(t, err)
	for name, test := range map[string]struct {
		name    string
		managed bool
		o       Options
		adopted int
		keeps   int
	}{
		"by the same":     {"gateway", false, Options{Adopt: true}, 4, 0},
		"by another":      {"second", false, Options{Adopt: true, AdoptFrom: "gateway"}, 20, 0},
		"what is managed": {"gateway", true, Options{}, 0, 0},
		"without adopt":   {"gateway", false, Options{}, 0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			m, notes := Export(live, test.name, "tenant", test.managed)
			require.Empty(t, notes)
			var b bytes.Buffer
			require.NoError(t, Write(&b, m, []string{"Of table limits."}, notes))
			again := parsed(t, b.String())
			assert.Equal(t, "tenant", again.Namespace)
			p := w.plan(t, again, test.o)
			for _, c := range p.Changes {
				assert.Equal(t, Adopt, c.Action, lines(p))
			}
			assert.Len(t, p.Changes, test.adopted, b.String())
			assert.Equal(t, test.keeps, p.Unmanaged)
		})
	}
}

func TestExportLeavesOutWhatGoesAndSaysWhatIsUnreadable(t *testing.T) {
	w := newWorld(t, "")
	w.apply(t, small, Options{})
	keys := schema.NewKeys("")
	w.raw(t, keys.Meta("key"), "deleting", &types.AttributeValueMemberBOOL{Value: true})
	w.raw(t, keys.PlanConfig("pro", ""), "l_rpm_cp", &types.AttributeValueMemberS{Value: "many"})
	live, err := Read(t.Context(), Of(admin.New(w.repo)), nil)
	require.NoError(t, err)
	m, notes := Export(live, "manifest", "", false)
	require.Len(t, notes, 1)
	var b bytes.Buffer
	require.NoError(t, Write(&b, m, []string{"Of table limits."}, notes))
	assert.Equal(t, `# Of table limits.
# Not in it: limits of plan pro: cannot be read: attribute l_rpm_cp is a *types.AttributeValueMemberS, want a number; set them again
version: 2
name: manifest
system:
  limits:
    rpm: 60
entities:
  alone:
    resources:
      gpt-4:
        blocked: true
  team:
    plan: pro
`, b.String())
	_, err = Parse("export.yaml", b.Bytes())
	require.NoError(t, err)
}

// A record that no list has, because another tool made it, is found by its sources.
func TestExportFindsRecordsOfOtherToolsByTheirSources(t *testing.T) {
	w := newWorld(t, "")
	w.apply(t, small, Options{})
	w.raw(t, schema.NewKeys("").Meta("key"), "GSI3PK", &types.AttributeValueMemberS{Value: "elsewhere"})
	assert.Contains(t, w.says(t), "  key:\n    parent: team\n    cascade: true\n    default:\n")
}
