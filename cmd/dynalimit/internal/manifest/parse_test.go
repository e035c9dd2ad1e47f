package manifest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// whole uses every key of the format.
const whole = `# limits of the gateway
version: 1
name: gateway
system:
  limits: {rpm: 60}
  on_unavailable: local
resources:
  gpt-4:
    limits:
      rpm: 100
      tpm: {capacity: 10_000, burst: 20k, refill: 5k, period: 1h30m}
      usd: {capacity: "$50", unit: usd, window: day, zone: America/Los_Angeles}
      rpw: {capacity: 7, window: week}
    groups: [openai, all]
  openai: {groups: [all]}
  all: {limits: {rpm: 500}}
  "gpt-3.5":
    unlimited: counted
    admit: true
  legacy: {blocked: true}
  beta: {blocked_except: true}
plans:
  pro: &pro
    default: {limits: {rpm: 1e3}}
    resources:
      gpt-4: {limits: {rpm: {capacity: 2M, period: 1d}}}
  trial:
    <<: *pro
    default: {limits: {rpm: 10}}
entities:
  team-a:
    name: Team A
    plan: pro
    metadata: {cost_center: 0042, "n": 1.50, on: [a, true, null, 'x']}
  key-1:
    parent: team-a
    cascade: true
    resources:
      gpt-4: {blocked: true, limits: {rpm: 5}}
  key-2:
    default: {limits: {rpm: {capacity: 6, refill_amount: 3, refill_period: 90, reserve: none}, usd: {capacity: 2_500_001, unit: usd, window: month, per_model: true, max_debt: 10_000, reserve: $0.50, alert_at: [50, 100], shadow: true}, inflight: {concurrent: 20, longest: 10m, reserve: 20%}}}
  key-3: {}
`

func wholeManifest() *Manifest {
	minute := func(name string, n int64) admin.LimitConfig {
		return admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerMinute(name, n)}}
	}
	gpt4 := admin.LimitConfig{Limits: []dynalimit.Limit{dynalimit.PerDay("rpm", 2_000_000)}}
	blocked := minute("rpm", 5)
	blocked.Blocked = true
	system := minute("rpm", 60)
	system.OnUnavailable = dynalimit.Local
	return &Manifest{
		Name: "gateway",
		Configs: map[admin.Scope]admin.LimitConfig{
			{Everyone: true}: system,
			{Everyone: true, Resource: "gpt-4"}: {Limits: []dynalimit.Limit{
				dynalimit.PerMinute("rpm", 100),
				dynalimit.WeeklyQuota("rpw", 7, ""),
				{Name: "tpm", Capacity: 10_000, Burst: 20_000, RefillAmount: 5000, RefillPeriod: 90 * time.Minute},
				dynalimit.DailyMoneyQuota("usd", 50_000_000, "America/Los_Angeles"),
			}, Groups: []string{"all", "openai"}},
			{Everyone: true, Resource: "openai"}:  {Groups: []string{"all"}},
			{Everyone: true, Resource: "all"}:     minute("rpm", 500),
			{Everyone: true, Resource: "gpt-3.5"}: {Unlimited: true, Counted: true, Admit: true},
			{Everyone: true, Resource: "beta"}:    {BlockedExcept: true},
			{Everyone: true, Resource: "legacy"}:  {Blocked: true},
			{Plan: "pro"}:                         minute("rpm", 1000),
			{Plan: "pro", Resource: "gpt-4"}:      gpt4,
			{Plan: "trial"}:                       minute("rpm", 10),
			{Plan: "trial", Resource: "gpt-4"}:    gpt4,
			{Entity: "key-1", Resource: "gpt-4"}:  blocked,
			{Entity: "key-2"}: {Limits: []dynalimit.Limit{
				dynalimit.Concurrent("inflight", 20, 0).WithLongest(10 * time.Minute).WithReserve(4),
				{Name: "rpm", Capacity: 6, Burst: 6, RefillAmount: 3, RefillPeriod: 90 * time.Second, Reserve: -1},
				dynalimit.Limit{Name: "usd", Capacity: 2_500_001, Burst: 2_500_001, RefillAmount: 2_500_001, Window: "month", Zone: "UTC", Unit: dynalimit.USD, PerModel: true, MaxDebt: 10_000, Reserve: 500_000, Shadow: true}.WithAlerts(50, 100),
			}},
		},
		Entities: map[string]Entity{
			"team-a": {Record: admin.Entity{
				ID: "team-a", Name: "Team A", Plan: "pro", Metadata: json.RawMessage(`{"cost_center":"0042","n":1.50,"on":["a",true,null,"x"]}`),
			}},
			"key-1": {Record: admin.Entity{ID: "key-1", ParentID: "team-a", Cascade: true}},
			"key-2": {Record: admin.Entity{ID: "key-2"}, LimitsOnly: true},
			"key-3": {Record: admin.Entity{ID: "key-3"}},
		},
	}
}

// placeless is a manifest without where its entities stand.
func placeless(m *Manifest) *Manifest {
	if m == nil {
		return nil
	}
	out := *m
	out.Entities = map[string]Entity{}
	for id, e := range m.Entities {
		e.Record.Metadata = json.RawMessage(canonicalJSON(e.Record.Metadata))
		if len(e.Record.Metadata) == 0 {
			e.Record.Metadata = nil
		}
		out.Entities[id] = e
	}
	out.Warnings = nil
	return &out
}

func TestParseReadsEveryKey(t *testing.T) {
	text := strings.ReplaceAll(whole, "0042", "'0042'")
	m, err := Parse("limits.yaml", []byte(text))
	require.NoError(t, err)
	assert.Equal(t, placeless(wholeManifest()), placeless(m))
	assert.JSONEq(t, string(wholeManifest().Entities["team-a"].Record.Metadata), string(m.Entities["team-a"].Record.Metadata))
	assert.Empty(t, m.Warnings)

	crlf, err := Parse("limits.yaml", []byte("\xef\xbb\xbf"+strings.ReplaceAll(text, "\n", "\r\n")))
	require.NoError(t, err)
	assert.Equal(t, placeless(m), placeless(crlf))
}

func TestWhatIsWrittenParsesToTheSame(t *testing.T) {
	m := wholeManifest()
	m.Namespace = "tenant-1"
	for _, name := range []string{"true", "No", "1e5", "0x10", "1:2", "12", "a/b"} {
		m.Configs[admin.Scope{Everyone: true, Resource: name}] = admin.LimitConfig{Blocked: true}
	}
	odd := m.Entities["key-3"]
	odd.Record.Name = "a: \"b\" # \\ \u0085\u2028\ufeff\x7f é 🎉 \n\ttab"
	odd.Record.Metadata = json.RawMessage(`{"a b":[[],{},{"x":[1e400,-0.5E-3,"0042","true",""]}],"\u0000":"\ud83d\ude00/<>&"}`)
	m.Entities["key-3"] = odd
	var b bytes.Buffer
	require.NoError(t, Write(&b, m, []string{"of table limits\nname: evil"}, map[admin.Scope]string{
		{Plan: "broken"}: "cannot be read", {Entity: "ghost", Resource: "x"}: "cannot\nbe read", {Everyone: true, Resource: "legacy"}: "a note",
	}))
	again, err := Parse("export.yaml", b.Bytes())
	require.NoError(t, err, b.String())
	delete(again.Entities, "ghost")
	assert.Equal(t, placeless(m), placeless(again), b.String())
}

func TestEveryProblemIsSaidWithItsPlaceAndItsFix(t *testing.T) {
	cases, err := filepath.Glob("testdata/bad/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, cases)
	for _, file := range cases {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			_, err = Parse("limits.yaml", text)
			require.Error(t, err)
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file, which -update writes.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "-update makes it")
	assert.Equal(t, string(want), got)
}

func TestProblemsOfTheFileAsAWhole(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'p'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	var merges strings.Builder
	merges.WriteString("entities:\n  e:\n    metadata:\n      a0: &a0 {k0: 1}\n")
	for i := 1; i < 2000; i++ {
		fmt.Fprintf(&merges, "      a%d: &a%d {<<: *a%d, k%d: 1}\n", i, i, i-1, i)
	}
	for name, test := range map[string]struct{ text, want string }{
		"empty":             {"", "limits.yaml: is empty"},
		"comments":          {"# nothing\n---\n", "limits.yaml: is empty"},
		"not UTF-8":         {"name: \xff\n", "limits.yaml:1:7: has the byte 0xff"},
		"UTF-16":            {"\xff\xfen\x00", "limits.yaml:1:1: has the byte 0xff, which is no text: save the file as UTF-8"},
		"control":           {"name: a\u009b31m\n", "limits.yaml:1:8: has the byte 0xc2"},
		"binary":            {"system:\n\x00\x01", "limits.yaml:2:1: has the byte 0x00"},
		"too long":          {strings.Repeat("# twenty characters..\n", 3<<20), "split it into several"},
		"two":               {"system: {blocked: true}\n---\nsystem: {blocked: true}\n", "limits.yaml:3:1: is a second document"},
		"after an end":      {"system: {blocked: true}\n...\n---\n", "is a second document"},
		"text after an end": {"system: {limits: {rpm: 1}}\n...\nresources: {gpt-4: {limits: {rpm: 2}}}\n", "limits.yaml:3:1: is no YAML from here on (did not find expected <document start>)"},
		"a list":            {"- a\n", "limits.yaml:1:1: is a list: write a mapping with system"},
		"a text":            {"hello\n", `limits.yaml:1:1: is "hello": write a mapping`},
		"a tab":             {"system:\n\tlimits: {rpm: 1}\n", "limits.yaml:2:1: is no YAML from here on (found character that cannot start any token): look for a bracket, a quote or an indentation that does not fit, and indent with spaces"},
		"deep":              {"a: " + strings.Repeat("[", 1<<20), "exceeded max depth"},
		"deep lists":        {strings.Repeat("- ", 1<<20), "exceeded max depth"},
		"deep keys":         {strings.Repeat("? ", 1<<20), "exceeded max depth"},
		"bomb":              {"entities: {e: {metadata: {\n" + strings.ReplaceAll(bomb, "]\n", "],\n") + "}}}\n", "is too much: aliases and merges make the file many times as long"},
		"merge bomb":        {merges.String(), "is too much: aliases and merges make the file many times as long"},
		"itself":            {"entities: {e: {metadata: &a {x: *a}}}\n", "is nested too deep"},
		"merges itself":     {"system: &a {<<: *a, limits: {rpm: 1}}\n", "limits.yaml:1:9: system: is merged into itself"},
		"a tag":             {"system: !!map {blocked: true}\n", "limits.yaml:1:9: system: has the tag !!map"},
		"a tagged limit":    {"system: {limits: {rpm: !x 1}}\n", "limits.yaml:1:24: system.limits.rpm: has the tag !x"},
		"no anchor":         {"system: *x\n", "limits.yaml:1:9: *x has no anchor"},
		"directive":         {"%YAML 1.2\n---\nsystem: {blocked: true}\n", "limits.yaml:1:1: is no YAML from here on (found incompatible YAML document)"},
		"long list":         {"system:\n" + strings.Repeat("  - 1\n", 1<<18), "limits.yaml:2:3: system: is a list: write a source"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Parse("limits.yaml", []byte(test.text))
			require.Error(t, err)
			assert.Nil(t, m)
			assert.Contains(t, err.Error(), test.want)
			assert.Less(t, len(err.Error()), 8000)
		})
	}
}

func TestNamesThatStandNowhereAreWarnings(t *testing.T) {
	m, err := Parse("limits.yaml", []byte("entities:\n  a: {parent: b, plan: pro}\n  c: {parent: a}\nresources: {gpt-4: {groups: [all, gpt-5]}, gpt-5: {unlimited: true}}\n"))
	require.NoError(t, err)
	assert.Equal(t, "limits.yaml:2:7: entities.a.parent: does not count, because the file has version 1 (2 parents): write 'version: 2', and 'detached: true' where a parent is for order alone\n"+
		"limits.yaml:2:7: entities.a.parent: the entity \"b\" is not in the file: if it is not in the table either, correct the name\n"+
		"limits.yaml:2:18: entities.a.plan: the plan \"pro\" is not in the file: if it is not in the table either, correct the name\n"+
		"limits.yaml:4:21: resources.gpt-4.groups: the group \"all\" is not in the file: if it is not in the table either, correct the name", m.Warnings.Error())
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "600": 600, "10_000": 10_000, "1_0": 10, "10k": 10_000, "2M": 2_000_000, "1e6": 1_000_000, "1e0": 1, "1e12": 1_000_000_000_000, "1000000M": 1_000_000_000_000,
	} {
		got, reason := parseAmount(text)
		assert.Empty(t, reason, text)
		assert.EqualValues(t, want, got, text)
	}
	for _, text := range []string{
		"", "0", "-1", "+1", "1.0", "1.5k", "010", "0x10", "0o7", "1e", "1e13", "1e99", "e6", "1E6", "1__0", "_1", "1_", "1K", "1m", "1G", "1 000", "1,000",
		"1000000000001", "99999999999999999999", "9999999M", ".inf", ".nan", "many", "１",
	} {
		n, reason := parseAmount(text)
		assert.Zero(t, n, text)
		assert.NotEmpty(t, reason, text)
	}
	for range 1000 {
		n := rand.Int64N(mostTokens) + 1
		got, reason := parseAmount(amountOf(n))
		assert.Empty(t, reason)
		assert.EqualValues(t, n, got)
	}
}

func TestPeriods(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1s": time.Second, "90s": 90 * time.Second, "1m": time.Minute, "1h30m": 90 * time.Minute, "1d": 24 * time.Hour, "366d": longestPeriod, "1d1h1m1s": 25*time.Hour + 61*time.Second,
	} {
		got, reason := parsePeriod(text)
		assert.Empty(t, reason, text)
		assert.EqualValues(t, want, got, text)
	}
	for _, text := range []string{"", "60", "0s", "-1s", "500ms", "1.5h", "1m1h", "1w", "366d1s", "367d", "9999999999d", "999999999h", "1 m", "1M", "minute"} {
		d, reason := parsePeriod(text)
		assert.Zero(t, d, text)
		assert.NotEmpty(t, reason, text)
	}
	for range 1000 {
		d := time.Duration(rand.Int64N(int64(longestPeriod/time.Second))+1) * time.Second
		got, reason := parsePeriod(notation.PeriodText(d))
		assert.Empty(t, reason)
		assert.EqualValues(t, d, got)
	}
}

// many is a manifest of n entities.
func many(n int) string {
	var b strings.Builder
	b.WriteString("plans:\n  pro: {default: {limits: {rpm: 10}}}\nentities:\n")
	for i := range n {
		fmt.Fprintf(&b, "  key-%d:\n    name: \"Key %d\"\n    plan: pro\n    default:\n      limits: {rpm: 100, tpm: {capacity: 10_000, period: 1m}}\n    resources:\n      gpt-4:\n        limits:\n          rpm:\n            capacity: %d\n", i, i, i+1)
	}
	return b.String()
}

func TestLongManifestsAreReadInFull(t *testing.T) {
	text := many(3000) + "  last:\n    metadata: |\n      key-1: not a key\n    'default': {blocked: true}\n"
	m, err := Parse("limits.yaml", []byte(text))
	require.NoError(t, err)
	require.Len(t, m.Entities, 3001)
	require.Len(t, m.Configs, 6002)
	for i := range 3000 {
		id := fmt.Sprint("key-", i)
		assert.Equal(t, fmt.Sprint("Key ", i), m.Entities[id].Record.Name)
		assert.EqualValues(t, i+1, m.Configs[admin.Scope{Entity: id, Resource: "gpt-4"}].Limits[0].Capacity)
	}
	assert.JSONEq(t, `"key-1: not a key\n"`, string(m.Entities["last"].Record.Metadata))

	_, err = Parse("limits.yaml", []byte(text+"  key-7: {}\n  key-8:\n    paln: x\n    b: {\n"))
	assert.ErrorContains(t, err, "is no YAML")
	_, err = Parse("limits.yaml", []byte(strings.Replace(text, "plan: pro", "paln: pro", 1)+"  key-7: {}\n"))
	require.ErrorContains(t, err, `limits.yaml:6:5: entities.key-0: "paln" is unknown here: write one of name, parent, cascade, detached, plan, only, metadata, default, resources`)
	assert.ErrorContains(t, err, `limits.yaml:30008:3: entities: "key-7" is given twice, first in line 74: remove one of them`)
}

func BenchmarkParse10000(b *testing.B) {
	text := []byte(many(10_000))
	for b.Loop() {
		if _, err := Parse("limits.yaml", text); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add(many(2))
	f.Add("entities: {a: {parent: b}, b: {parent: a}}")
	f.Add("system: &a {<<: *a, limits: {rpm: [1]}}")
	bad, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, file := range bad {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse("limits.yaml", []byte(text))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		var b bytes.Buffer
		require.NoError(t, Write(&b, m, nil, nil))
		again, err := Parse("limits.yaml", b.Bytes())
		require.NoError(t, err, b.String())
		require.Equal(t, placeless(m), placeless(again), b.String())
	})
}
