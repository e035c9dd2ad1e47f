package zae

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/manifest"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// item is one as zae-limiter writes it: a number for an int, a mark for a bool.
func item(pk, sk string, attributes map[string]any) schema.Item {
	out := schema.Key{PK: pk, SK: sk}.Attributes()
	for name, value := range attributes {
		switch v := value.(type) {
		case int:
			out[name] = schema.Number(int64(v))
		case string:
			out[name] = schema.String(v)
		case bool:
			out[name] = &types.AttributeValueMemberBOOL{Value: v}
		}
	}
	return out
}

// rpm is a limit of 60 a minute, with more.
func rpm(more map[string]any) map[string]any {
	out := map[string]any{"l_rpm_cp": 60, "l_rpm_ra": 60, "l_rpm_rp": 60}
	for name, value := range more {
		out[name] = value
	}
	return out
}

// quota is a limit that is reset by a compact cron.
func quota(cron, zone string) map[string]any {
	out := map[string]any{"l_rpd_cp": 60, "l_rpd_ra": 0, "l_rpd_rp": 1, "l_rpd_rsched": cron}
	if zone != "" {
		out["sched_tz"] = zone
	}
	return out
}

type attributes = map[string]any

// TestWhatAManifestCannotSayIsNamed: each thing once, with what it says and lacks besides.
func TestWhatAManifestCannotSayIsNamed(t *testing.T) {
	system := item("SYSTEM#", "#CONFIG", rpm(nil))
	child := item("ENTITY#child", "#META", attributes{"name": "child", "parent_id": "team", "cascade": true})
	for name, test := range map[string]struct {
		items []schema.Item
		has   []string // of the manifest
		lacks []string // of what is named
	}{
		"hours": {[]schema.Item{item("RESOURCE#r", "#CONFIG", quota("1m0", "Europe/Berlin"))}, []string{"rpd: {capacity: 60, window: hour}"}, nil},
		"half hours": {[]schema.Item{system, item("RESOURCE#r", "#CONFIG", quota("1m0", "Asia/Kolkata"))}, nil, []string{
			"limit rpd of resource r: its hours are those of Asia/Kolkata", "resource r: none of its limits",
		}},
		"weeks":     {[]schema.Item{item("RESOURCE#r", "#CONFIG", quota("1m0h0w1", "Asia/Tokyo"))}, []string{"window: week, zone: Asia/Tokyo"}, nil},
		"months":    {[]schema.Item{item("RESOURCE#r", "#CONFIG", quota("1m0h0D1", ""))}, []string{"window: month}"}, nil},
		"the 15th":  {[]schema.Item{item("RESOURCE#r", "#CONFIG", rpm(quota("1m0h0D15", "")))}, []string{"rpm: 60"}, []string{`limit rpd of resource r: it is reset by the cron "0 0 15 * *"`}},
		"two crons": {[]schema.Item{item("RESOURCE#r", "#CONFIG", rpm(quota("1m0h0;m0h12", "")))}, []string{"rpm: 60"}, []string{`the cron "0 0 * * *" and "0 12 * * *"`}},
		"no zone":   {[]schema.Item{item("RESOURCE#r", "#CONFIG", rpm(quota("1m0h0", "Mars/North")))}, []string{"rpm: 60"}, []string{`limit rpd of resource r: its zone is "Mars/North"`}},
		"no refill": {[]schema.Item{item("RESOURCE#r", "#CONFIG", rpm(attributes{"l_x_cp": 5, "l_x_rp": 0}))}, []string{"rpm: 60"}, []string{"limit x of resource r: "}},
		"too large": {[]schema.Item{item("RESOURCE#r", "#CONFIG", rpm(attributes{"l_x_cp": 2_000_000_000_000, "l_x_ra": 2_000_000_000_000, "l_x_rp": 60}))}, []string{"rpm: 60"}, []string{"limit x of resource r: "}},
		"twice":     {[]schema.Item{item("RESOURCE#r", "#CONFIG", rpm(attributes{"w_rpm_cp": 5, "on_unavailable": "allow"}))}, []string{"on_unavailable: allow"}, []string{"resource r: one limit is stored twice"}},
		"lifted": {[]schema.Item{system, item("RESOURCE#r", "#CONFIG", attributes{"disabled": true}), item("ENTITY#e", "#CONFIG#r", attributes{"disabled": false})}, []string{"blocked: true"}, []string{
			"entity e on r: there the limits of system hold, and by the manifest every call is refused",
		}},
		"bypassed though blocked": {[]schema.Item{item("RESOURCE#r", "#CONFIG", attributes{"disabled": true}), item("ENTITY#e", "#CONFIG#_default_", attributes{"disabled": "bypass"})}, nil, []string{
			"entity e on r: there no call is limited, and by the manifest every call is refused",
		}},
		"limits below a bypass": {[]schema.Item{item("RESOURCE#r", "#CONFIG", attributes{"disabled": "bypass"}), item("ENTITY#e", "#CONFIG#r", rpm(nil))}, []string{"unlimited: true"}, []string{
			"entity e on r: there no call is limited, and by the manifest the limits of entity e on r hold",
		}},
		"enforced below a bypass": {[]schema.Item{system, item("ENTITY#e", "#CONFIG#_default_", attributes{"disabled": "bypass"}), item("ENTITY#e", "#CONFIG#r", attributes{"disabled": false})}, nil, []string{
			"entity e on r: there the limits of system hold, and by the manifest no call is limited",
		}},
		"bypass beside limits":    {[]schema.Item{item("ENTITY#e", "#CONFIG#r", rpm(attributes{"disabled": "bypass"}))}, []string{"unlimited: true"}, nil},
		"cascade of a resource":   {[]schema.Item{child, item("RESOURCE#r", "#CONFIG", rpm(attributes{"cascade": false}))}, []string{"cascade: true"}, []string{"entity child on r: 'cascade: false' is said by resource r"}},
		"cascade of its default":  {[]schema.Item{child, item("ENTITY#child", "#CONFIG#_default_", attributes{"cascade": false}), item("RESOURCE#r", "#CONFIG", rpm(attributes{"cascade": true}))}, []string{"detached: true"}, nil},
		"cascade on one resource": {[]schema.Item{child, item("ENTITY#child", "#CONFIG#r", attributes{"cascade": false})}, []string{"cascade: true"}, []string{"entity child on r: 'cascade: false' is said by entity child on r"}},
		"two parents": {[]schema.Item{child, item("ENTITY#team", "#META", attributes{"parent_id": "org", "cascade": true})}, []string{"parent: org"}, []string{
			`entity child: its calls charge "team", and here also its parent "org"`,
		}},
		"a cycle": {[]schema.Item{child, item("ENTITY#team", "#META", attributes{"parent_id": "child", "cascade": false})}, []string{"child:\n    name: child\n  team:\n    parent: child\n    detached: true\n"}, []string{`entity child: its parent "team" makes a cycle`}},
		"older and newer items": {[]schema.Item{
			item("RESOURCE#r", "#LIMIT#rpm", attributes{"capacity": 7, "refill_period_seconds": 60}), item("RESOURCE#s", "#LIMIT#rpm", attributes{"capacity": 7, "refill_period_seconds": 60}),
			item("RESOURCE#r", "#CONFIG", rpm(nil)),
		}, []string{"rpm: 60", "rpm: 7"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := sourceOf("zae", "", test.items)
			require.NoError(t, err)
			got := s.Translate("zae", "")
			var text strings.Builder
			require.NoError(t, manifest.Write(&text, got.Manifest, nil, nil))
			for _, want := range test.has {
				assert.Contains(t, text.String(), want)
			}
			require.Len(t, got.Lacks, len(test.lacks), got.Lacks)
			for i, want := range test.lacks {
				assert.Contains(t, got.Lacks[i], want)
			}
			_, err = manifest.Parse("limits.yaml", []byte(text.String()))
			require.NoError(t, err, text.String())
		})
	}
}
