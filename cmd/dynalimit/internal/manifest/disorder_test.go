package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// odd are names that YAML could take for something else.
var odd = []string{
	"on", "off", "yes", "No", "null", "Null", "true", "FALSE", "1e3", "0x10", "0o17", "0b1", "1_000", "2026-01-01", "12:30:45", "1.5", "007", "0",
	"a:b", "a-b", "a@b", "a.b", "y", "n", "nan", "inf", "e", "E1", "-", "a--b", "merge", "1.", "1:2", "x:", "key.with.dots", "9-", "00e0",
}

// oddTexts are values that are hard to write down.
var oddTexts = []string{
	"", " ", "~", "null", "yes", "1e3", "# no comment", "a: b", "- a", "'", `"`, `\`, "\t", "\n", "a\nb\n", " lead", "trail ", "é", "日本語", "👩‍👩‍👧", "\u2028",
	"\u0085", "\ufeff", "\u200b", "<b>&amp;</b>", "{a}", "[a", "*a", "&a", "!tag", "%x", "@x", "`", "a\rb", "\x7f", "\u0000", "...", "---", "<<", "?", ":", "a,b", strings.Repeat("long ", 150),
}

// oddJSON are values as another program could have stored them.
var oddJSON = []string{
	`{}`, `[]`, `null`, `true`, `"x"`, `0`, `-0`, `1e400`, `1E+2`, `-1.50e-300`, `123456789012345678901234567890`, `[[],{},[{}]]`, `{"":""}`, `{"a":1,"a":2}`,
	`{"on":1,"1":2,"null":null,"<<":{"x":1}}`, `"\ud800"`, `"\u0000"`, `"<&>"`, `{"a b":{"c:d":["e, f","#"]}}`, `[null,true,"true","null","1"]`, `" "`, `{"k":"\u2028\ufeff\u0085"}`, `1.0`, `{"é":"日"}`, `[1 , 2 ]`,
	`{"` + strings.Repeat("k", 1100) + `":1}`,
}

// seeds are n of them, or few where the run is for the race detector.
func seeds(n uint64) uint64 {
	if os.Getenv("DYNALIMIT_HISTORIES") == "10" {
		return n / 6
	}
	return n
}

func pick[T any](random *rand.Rand, of []T) T { return of[random.IntN(len(of))] }

// randomLimits are limits at and within their bounds.
func randomLimits(random *rand.Rand) []dynalimit.Limit {
	amount := func() int64 {
		return pick(random, []int64{1, 7, 10_000, 1_000_000, 999_999_999_999, 1_000_000_000_000})
	}
	var out []dynalimit.Limit
	for i := range pick(random, []int{1, 1, 2, 20}) {
		l := dynalimit.Limit{Name: fmt.Sprintf("l%02d", i), Capacity: amount(), RefillPeriod: pick(random, []time.Duration{time.Second, 90 * time.Second, time.Minute, 25 * time.Hour, 366 * 24 * time.Hour})}
		if i < 3 && random.IntN(3) == 0 {
			l.Name = pick(random, []string{"on", "null", "y", "e1", "inf", "true"}) + fmt.Sprint(i)
		}
		l.Burst, l.RefillAmount = max(l.Capacity, amount()), amount()
		out = append(out, l)
	}
	return out
}

// disorder puts into a table what users of the library could.
func disorder(t *testing.T, random *rand.Rand, r *dynalimit.Repository) {
	t.Helper()
	ctx := t.Context()
	for range 12 {
		e := admin.Entity{ID: pick(random, odd), Name: pick(random, oddTexts), Metadata: json.RawMessage(pick(random, oddJSON))}
		if random.IntN(3) == 0 {
			e.Plan = pick(random, odd)
		}
		if err := admin.New(r).Entities.Create(ctx, e); err != nil {
			t.Logf("not made: %v", err)
		}
		c := admin.LimitConfig{Version: admin.AnyVersion, Blocked: random.IntN(4) == 0, Limits: randomLimits(random)}
		if random.IntN(4) == 0 {
			c.Limits, c.Unlimited, c.Counted = nil, true, random.IntN(2) == 0
		}
		switch random.IntN(6) {
		case 0:
			c.Blocked, c.BlockedExcept = false, true
		case 1:
			c.Blocked, c.Admit = false, true
		}
		at := pick(random, []admin.Scope{
			{Everyone: true},
			{Everyone: true, Resource: pick(random, odd) + "/" + pick(random, odd)},
			{Plan: pick(random, odd)},
			{Plan: pick(random, odd), Resource: pick(random, odd)},
			{Entity: pick(random, odd)},
			{Entity: pick(random, odd), Resource: pick(random, odd)},
		})
		if _, err := admin.New(r).Limits.SetConfig(ctx, at, c); err != nil {
			t.Logf("not set: %v", err)
		}
	}
}

// The manifest of whatever a table can say parses, and adopts everything as it is.
func TestAnyTableIsExportedAsItIs(t *testing.T) {
	for seed := range seeds(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			w := newWorld(t, pick(random, []string{"", "tenant"}))
			disorder(t, random, w.repo)
			live, err := Read(t.Context(), Of(admin.New(w.repo)), nil)
			require.NoError(t, err)
			m, notes := Export(live, "x", "", false)
			require.Empty(t, notes)
			var b bytes.Buffer
			require.NoError(t, Write(&b, m, nil, notes))
			again, err := Parse("x.yaml", b.Bytes())
			require.NoError(t, err, b.String())
			p := w.plan(t, again, Options{Adopt: true})
			for _, c := range p.Changes {
				assert.Equal(t, Adopt, c.Action, "%v\n%s", lines(Plan{Changes: []Change{c}}), b.String())
			}
			w.apply(t, b.String(), Options{Adopt: true})
			schema, value := compiled(t), plainValue(t, b.String())
			assert.NoError(t, schema.Validate(value))
		})
	}
}

// owned is everything of a table that a manifest of a name manages, as it is stored.
func (w *world) owned(t *testing.T, name string) (sources map[admin.Scope]admin.LimitConfig, records map[string]admin.Entity) {
	t.Helper()
	live, err := Read(t.Context(), Of(admin.New(w.repo)), nil)
	require.NoError(t, err)
	maps.DeleteFunc(live.Configs, func(_ admin.Scope, c admin.LimitConfig) bool { return c.ManagedBy != name })
	maps.DeleteFunc(live.Entities, func(_ string, e admin.Entity) bool { return e.ManagedBy != name })
	return live.Configs, live.Entities
}

// Whatever one manifest changes, adopts and prunes, what another one manages, and what was
// set by hand and is not adopted, stays as it is, to the version.
func TestManifestsNeverTouchWhatIsNotTheirs(t *testing.T) {
	for seed := range seeds(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 3))
			w := newWorld(t, "")
			w.force(t, "name: theirs\n"+drawn(random), Options{})
			disorder(t, random, w.repo)
			for range 3 {
				sources, records := w.owned(t, "theirs")
				handSources, handRecords := w.owned(t, "")
				o := Options{Adopt: random.IntN(2) == 0, Prune: true, LiftBlocks: true}
				text := "name: ours\n" + strings.NewReplacer("  x:", "  "+pick(random, []string{"x", `"1e3"`, "new"})+":").Replace(drawn(random))
				w.force(t, text, o)
				sourcesAfter, recordsAfter := w.owned(t, "theirs")
				assert.Equal(t, sources, sourcesAfter, text)
				assert.Equal(t, records, recordsAfter, text)
				if !o.Adopt {
					sourcesAfter, recordsAfter = w.owned(t, "")
					assert.Equal(t, handSources, sourcesAfter, text)
					assert.Equal(t, handRecords, recordsAfter, text)
				}
			}
		})
	}
}

// force applies what is not refused, as no command would; what is refused is the same
// afterwards, and nothing else is left.
func (w *world) force(t *testing.T, text string, o Options) {
	t.Helper()
	m := parsed(t, text)
	p := w.plan(t, m, o)
	out, err := Apply(t.Context(), Of(admin.New(w.repo)), p, func(int, int) {})
	require.NoError(t, err)
	require.Empty(t, out.Failed)
	for _, c := range w.plan(t, m, o).Changes {
		require.Equal(t, Refuse, c.Action, "%s\n%v", text, lines(Plan{Changes: []Change{c}}))
	}
}

// Who adopts what nobody manages does not delete the sources of another manifest with an
// entity.
func TestPruningKeepsSourcesOfAnotherManifest(t *testing.T) {
	w := newWorld(t, "")
	w.apply(t, "name: theirs\nentities: {x: {default: {limits: {rpm: 5}}}}", Options{})
	w.apply(t, "name: ours\nentities: {x: {name: X}}", Options{})
	m := parsed(t, "name: ours\nversion: 1")
	p := w.plan(t, m, Options{Prune: true, Adopt: true})
	require.Len(t, p.Changes, 1)
	assert.Equal(t, Refuse, p.Changes[0].Action)
	assert.Equal(t, "1 of its sources are not the manifest's, and would go with it: remove them first, or take them over with --adopt, or --adopt-from for those of another manifest", p.Changes[0].Note)
	p = w.apply(t, "name: ours\nversion: 1", Options{Prune: true, AdoptFrom: "theirs"})
	assert.Equal(t, 1, p.Count(Delete))
}
