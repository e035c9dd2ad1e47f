package trail

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

// The time of the specification's example, and the ends of the range.
func TestIDsAreULIDs(t *testing.T) {
	assert.Equal(t, "01ARYZ6S410000000000000000", FirstID(time.UnixMilli(1469918176385)))
	assert.Equal(t, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", newID(1<<48-1, [10]byte(slices.Repeat([]byte{0xff}, 10))).String())
	assert.Equal(t, "00000000000000000000000000", FirstID(time.UnixMilli(-5)))
	assert.Equal(t, "7ZZZZZZZZZ0000000000000000", FirstID(time.UnixMilli(1<<52)), "later than any id")
	for _, wrong := range []string{"", "01ARYZ6S41", "81ARYZ6S410000000000000000", "01ARYZ6S41000000000000000U", "01aryz6s410000000000000000"} {
		_, ok := TimeOf(wrong)
		assert.False(t, ok, wrong)
	}
}

func TestIDsSortAsTheirTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<48-1)
		a, b := ms.Draw(t, "a"), ms.Draw(t, "b")
		entropy := [10]byte(rapid.SliceOfN(rapid.Byte(), 10, 10).Draw(t, "entropy"))
		x, y := newID(a, entropy).String(), FirstID(time.UnixMilli(b))
		if a < b {
			assert.Less(t, x, y)
		} else {
			assert.GreaterOrEqual(t, x, y)
		}
		at, ok := TimeOf(x)
		assert.True(t, ok)
		assert.Equal(t, a, at.UnixMilli())
	})
}

// Each id is larger than those before it: within a millisecond, with a clock set back,
// and in several goroutines.
func TestIDsOfAProcessRise(t *testing.T) {
	var s IDs
	now := time.UnixMilli(1_800_000_000_000)
	var last string
	for i := range 2_000 {
		next := s.New(now.Add(-time.Duration(i%3) * time.Second))
		require.Greater(t, next, last)
		last = next
	}
	var group sync.WaitGroup
	var seen sync.Map
	for range 8 {
		group.Go(func() {
			for range 200 {
				_, twice := seen.LoadOrStore(s.New(now), true)
				assert.False(t, twice)
			}
		})
	}
	group.Wait()
	carried := id{15: 0xff}.successor()
	assert.Equal(t, id{14: 1}, carried)
}

// An id is above one of another process that is a little ahead, and not above what a wrong
// clock drew.
func TestIDsFollowOthers(t *testing.T) {
	now := time.UnixMilli(1_795_254_842_412)
	for ahead, follows := range map[time.Duration]bool{
		-time.Hour: true, 0: true, time.Second: true, time.Minute: true, time.Minute + time.Millisecond: false, 24 * time.Hour: false,
	} {
		last := new(IDs).New(now.Add(ahead))
		drawn := new(IDs).Above(last, now)
		assert.Equal(t, follows, drawn > last, ahead)
		at, ok := TimeOf(drawn)
		require.True(t, ok)
		want := now
		if follows && ahead > 0 {
			want = now.Add(ahead)
		}
		assert.Equal(t, want.UTC(), at, ahead)
	}
	var s IDs
	first := s.Above(FirstID(now.Add(time.Second)), now)
	assert.Greater(t, s.New(now), first)
	assert.Greater(t, s.Above("not an id", now), first)
}

func TestDiffNamesTheFieldsThatDiffer(t *testing.T) {
	changes, err := Diff(
		Fields{"name": "Key one", "parent": "proj-1", "cascade": true, "metadata": json.RawMessage(`{"a": 1}`), "gone": 3},
		Fields{"name": "Key one", "parent": "proj-2", "cascade": true, "metadata": json.RawMessage(`{"a":1}`), "new": []string{"x"}, "gone": nil},
	)
	require.NoError(t, err)
	assert.Equal(t, []audit.Change{
		{Field: "gone", Before: json.RawMessage("3")},
		{Field: "new", After: json.RawMessage(`["x"]`)},
		{Field: "parent", Before: json.RawMessage(`"proj-1"`), After: json.RawMessage(`"proj-2"`)},
	}, changes)
	_, err = Diff(nil, Fields{"bad": func() {}})
	assert.ErrorContains(t, err, "field bad")
}

func TestEventsAreReadAsTheyWereWritten(t *testing.T) {
	at := time.UnixMilli(1_795_254_842_412).UTC()
	e := audit.Event{
		ID: FirstID(at), Time: at, Principal: "arn:aws:sts::1:assumed-role/ops/ann", Action: "limits_set", Target: audit.Resource("gpt-4"), Resource: "gpt-4", Reason: "the launch, 2 h",
		Changes: []audit.Change{
			{Field: "blocked", After: json.RawMessage("true")},
			{Field: "limits", Before: json.RawMessage(`[{"capacity":100,"name":"rpm"}]`), After: json.RawMessage(`[]`)},
			{Field: "note", Before: json.RawMessage("null"), After: json.RawMessage(`""`)},
		},
	}
	layout := Layout{Prefix: "prod/", TTL: "ttl", Retention: 90 * 24 * time.Hour, Indexed: true}
	item := layout.Item(e)
	assert.Equal(t, e, Decode(item))
	assert.Equal(t, "prod/AUDIT#$RESOURCE:gpt-4", schema.Text(item, schema.PK))
	assert.Equal(t, "#AUDIT#"+e.ID, schema.Text(item, schema.SK))
	assert.Equal(t, "prod/AUDIT#2026-11-21#"+string(rune('0'+ShardOf(e.Principal))), schema.Text(item, schema.GSI2PK))
	assert.Equal(t, e.Principal, IndexedPrincipal(schema.Text(item, schema.GSI2SK)))
	assert.Equal(t, schema.Number(at.Unix()+90*24*3600), item["ttl"])
	kept := Layout{TTL: "ttl"}.Item(audit.Event{ID: e.ID, Target: audit.System})
	assert.NotContains(t, kept, "ttl", "kept for ever")
	assert.NotContains(t, kept, schema.GSI2PK)
	assert.Equal(t, "", Decode(kept).Principal)
}

// The events of zae-limiter are read, with what they say afterwards.
func TestEventsOfTheSourceAreRead(t *testing.T) {
	data, err := os.ReadFile("testdata/zae-0.8.1-events.json")
	require.NoError(t, err)
	items, err := testworld.DecodeItems(data)
	require.NoError(t, err)
	var events []audit.Event
	for _, item := range items {
		if strings.HasPrefix(schema.Text(item, schema.PK), "AUDIT#") {
			events = append(events, Decode(item))
		}
	}
	require.Len(t, events, 6)
	i := slices.IndexFunc(events, func(e audit.Event) bool { return e.Target == "$SYSTEM" })
	system := events[i]
	assert.Equal(t, "limits_set", system.Action)
	assert.Equal(t, "01M7YRDX061WQWG398E1WZP0DT", system.ID)
	assert.Equal(t, "2026-11-21T09:54:02Z", system.Time.Truncate(time.Second).Format(time.RFC3339))
	require.Len(t, system.Changes, 2)
	assert.Equal(t, audit.Change{Field: "on_unavailable", After: json.RawMessage(`"allow"`)}, system.Changes[1])
	assert.Contains(t, string(system.Changes[0].After), `"rpm"`)
}

func TestPrincipalsAreNamesThatCanBeSeen(t *testing.T) {
	for _, good := range []string{"ann@example.com", "arn:aws:sts::1:assumed-role/ops/ann", "Ann Møller", "deploy #7", strings.Repeat("é", 256)} {
		assert.Empty(t, CheckPrincipal(good), good)
	}
	for wrong, part := range map[string]string{
		"": "is empty", "\xff": "UTF-8", "a\nb": `'\n'`, "a\x00": "can be seen", strings.Repeat("é", 257): "257 characters", "a\u202eb": "can be seen",
		strings.Repeat("😀", 256): "1024 bytes",
	} {
		assert.Contains(t, CheckPrincipal(wrong), part)
	}
	assert.Empty(t, CheckReason("")+CheckReason(strings.Repeat("é", 500)))
	assert.Contains(t, CheckReason(strings.Repeat("é", 501)), "501 characters")
	assert.Contains(t, CheckReason("a\nb"), "can be seen")
}
