package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// memory is a Writer that keeps files in memory, and fails while it is told to.
type memory struct {
	mu    sync.Mutex
	files map[string][]byte
	fails func(name string) error
	puts  int
}

func (m *memory) Put(ctx context.Context, name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.puts++
	if m.fails != nil {
		if err := m.fails(name); err != nil {
			return err
		}
	}
	if m.files == nil {
		m.files = map[string][]byte{}
	}
	m.files[name] = data
	return ctx.Err()
}

// lines are those of all files, in the order of the files' names.
func (m *memory) lines(t *testing.T) (lines []Line) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, data := range m.files {
		for line, err := range Read(bytes.NewReader(data)) {
			require.NoError(t, err)
			lines = append(lines, line)
		}
	}
	slices.SortFunc(lines, func(a, b Line) int { return strings.Compare(a.EventID, b.EventID) })
	return lines
}

func (m *memory) names() (names []string) {
	for name := range m.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var (
	noon  = time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	later = noon.Add(91 * 24 * time.Hour)
	eu    = schema.NewKeys("eu")
)

// expired is the n-th record: the end of an item by its time to live.
func expired(n int, key schema.Key, item schema.Item) aggregator.Record {
	whole := key.Attributes()
	for name, v := range item {
		whole[name] = v
	}
	return aggregator.Record{
		EventID: fmt.Sprintf("event-%05d", n), Sequence: fmt.Sprint(1000 + n), Shard: "shardId-01", Time: later, Keys: key.Attributes(), Old: whole, Expired: true,
	}
}

func snapshot(n int, entity string) aggregator.Record {
	return expired(n, eu.Usage(entity, "org/gpt-4", noon), schema.Item{
		"window": schema.String("hourly"), "window_start": schema.String("2026-03-29T12:00:00Z"), "total_events": schema.Number(2),
		"u_rpm_n": schema.Number(9007199254740993), "u_rpm_m": schema.Number(5), "u_rpm_g": schema.Number(7), "u_rpm^_n": schema.Number(4), "u_ttl_n": schema.Number(-1), "ttl": schema.Number(9),
	})
}

func newArchive(t *testing.T, opts *Options) (*Archive, *memory) {
	t.Helper()
	files := &memory{}
	a, err := New(files, opts)
	require.NoError(t, err)
	return a, files
}

func process(t *testing.T, a *Archive, records ...aggregator.Record) aggregator.Result {
	t.Helper()
	r, err := a.Process(t.Context(), records)
	require.NoError(t, err)
	return r
}

// TestLines: what each kind of item becomes, and in which folder it is.
func TestLines(t *testing.T) {
	event := audit.Event{
		ID: trail.FirstID(noon), Time: noon, Principal: "ann", Action: "limits_set", Target: audit.Resource("org/gpt-4"), Resource: "org/gpt-4",
		Changes: []audit.Change{{Field: "limits", Before: json.RawMessage("12345678901234567890"), After: json.RawMessage(`["<a>"]`)}},
	}
	layout := trail.Layout{Prefix: "eu/", TTL: "ttl", Retention: time.Hour}
	item := layout.Item(event)
	sum := schema.UsageSum{
		UsageSeries: schema.UsageSeries{Kind: schema.UsageOfPlan, ID: "pro", Resource: "gpt-4", Window: schema.UsageDaily}, Start: noon.Truncate(24 * time.Hour),
		Net: map[string]int64{"rpm": 3}, Entities: 4, Expires: 9,
	}.Item(eu)
	day := schema.UsageSum{
		UsageSeries: schema.UsageSeries{Kind: schema.UsageOfEntity, ID: "key-1", Resource: "gpt-4", Window: schema.UsageMonthly}, Start: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		Net: map[string]int64{"rpm": 1},
	}.Item(eu)
	for name, test := range map[string]struct {
		record aggregator.Record
		folder string
		want   Line
		item   string
	}{
		"an administrative change": {
			expired(1, schema.KeyOf(item), item), "audit/date=2026-03-29",
			Line{Kind: Audit, Namespace: "eu", ID: "$RESOURCE:org/gpt-4", Resource: "org/gpt-4", Time: noon},
			`{"PK":"eu/AUDIT#$RESOURCE:org/gpt-4","SK":"#AUDIT#` + event.ID + `","action":"limits_set","details":{"changes":{"limits":{"after":["\u003ca\u003e"],"before":12345678901234567890}}},"entity_id":"$RESOURCE:org/gpt-4","event_id":"` + event.ID + `","principal":"ann","resource":"org/gpt-4","timestamp":"2026-03-29T12:00:00Z","ttl":1774789200}`,
		},
		"an hour of an entity": {
			snapshot(1, "key-1"), "usage/hour/date=2026-03-29",
			Line{
				Kind: Usage, Namespace: "eu", Of: "entity", ID: "key-1", Resource: "org/gpt-4", Window: aggregator.Hour, Time: noon,
				Limits: map[string]Counts{"rpm": {Consumed: 9007199254740993 + 12, Passed: 4, Unrecorded: 12}, "ttl": {Consumed: -1}},
			},
			`{"PK":"eu/ENTITY#key-1","SK":"#USAGE#org/gpt-4#2026-03-29T12:00:00Z","total_events":2,"ttl":9,"u_rpm^_n":4,"u_rpm_g":7,"u_rpm_m":5,"u_rpm_n":9007199254740993,"u_ttl_n":-1,"window":"hourly","window_start":"2026-03-29T12:00:00Z"}`,
		},
		"a sum of a plan": {
			expired(1, schema.KeyOf(sum), sum), "total/plan/day/date=2026-03-29",
			Line{
				Kind: Total, Namespace: "eu", Of: "plan", ID: "pro", Resource: "gpt-4", Window: aggregator.Day, Time: noon.Truncate(24 * time.Hour),
				Limits: map[string]Counts{"rpm": {Consumed: 3}},
			},
			"",
		},
		"a month of an entity": {
			expired(1, schema.KeyOf(day), day), "usage/month/date=2026-03-01",
			Line{
				Kind: Usage, Namespace: "eu", Of: "entity", ID: "key-1", Resource: "gpt-4", Window: aggregator.Month, Time: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
				Limits: map[string]Counts{"rpm": {Consumed: 1}},
			},
			"",
		},
		"counters that cannot be read": {
			expired(1, schema.Keys{}.Usage("key-1", "gpt-4", noon), schema.Item{"u_rpm_n": schema.String("many"), "n": &types.AttributeValueMemberNS{Value: []string{"1"}}, "b": &types.AttributeValueMemberBS{Value: [][]byte{{1}}}, "z": &types.AttributeValueMemberNULL{Value: true}}),
			"usage/hour/date=2026-03-29",
			Line{Kind: Usage, Of: "entity", ID: "key-1", Resource: "gpt-4", Window: aggregator.Hour, Time: noon},
			`{"PK":"ENTITY#key-1","SK":"#USAGE#gpt-4#2026-03-29T12:00:00Z","b":["AQ=="],"n":[1],"u_rpm_n":"many","z":null}`,
		},
		"a change of which nothing is known": {
			expired(1, schema.Key{PK: "AUDIT#$SYSTEM", SK: "#AUDIT#x"}, schema.Item{}), "audit/date=2026-06-28",
			Line{Kind: Audit, ID: "$SYSTEM", Time: later},
			`{"PK":"AUDIT#$SYSTEM","SK":"#AUDIT#x"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, files := newArchive(t, nil)
			assert.Equal(t, aggregator.Result{Counted: 1}, process(t, a, test.record))
			lines := files.lines(t)
			require.Len(t, lines, 1)
			test.want.EventID, test.want.Expired, test.want.Item = "event-00001", later, lines[0].Item
			assert.Equal(t, test.want, lines[0])
			if test.item != "" {
				assert.JSONEq(t, test.item, string(lines[0].Item))
				d := json.NewDecoder(strings.NewReader(test.item)) // with every digit
				d.UseNumber()
				var want any
				require.NoError(t, d.Decode(&want))
				text, err := json.Marshal(want)
				require.NoError(t, err)
				assert.Equal(t, string(text), string(lines[0].Item))
			}
			require.Len(t, files.files, 1)
			assert.Equal(t, test.folder, files.names()[0][:strings.LastIndexByte(files.names()[0], '/')])
		})
	}
}

// TestWhatIsNotKept: what did not expire, and what is no history, causes no file.
func TestWhatIsNotKept(t *testing.T) {
	a, files := newArchive(t, nil)
	deleted := snapshot(1, "key-1")
	deleted.Expired = false
	written := snapshot(2, "key-1")
	written.Expired, written.New = false, written.Old
	records := []aggregator.Record{deleted, written}
	for i, key := range []schema.Key{eu.Bucket("key-1", "gpt-4"), eu.Meta("key-1"), eu.SystemConfig(), {PK: "eu/LEASES#", SK: "#x"}, {PK: "x", SK: "#AUDIT#"}} {
		records = append(records, expired(3+i, key, schema.Item{"ttl": schema.Number(9)}))
	}
	for _, of := range []string{"login-address:203.0.113.7", "login-client:00ff:203.0.113.7"} { // failed logins, as earlier versions counted them
		records = append(records, expired(8, eu.Usage(of, "login", noon), schema.Item{"u_failed_logins_n": schema.Number(1), "ttl": schema.Number(9)}))
	}
	assert.Equal(t, aggregator.Result{Ignored: 9}, process(t, a, records...))
	assert.Equal(t, aggregator.Result{}, process(t, a))
	assert.Zero(t, files.puts)
}

// TestTheSameRecordsMakeTheSameFile: with the same bytes; others make others, whatever their
// numbers are; a record that comes twice at once has one line.
func TestTheSameRecordsMakeTheSameFile(t *testing.T) {
	a, files := newArchive(t, nil)
	batch := []aggregator.Record{snapshot(1, "key-1"), snapshot(2, "key-2"), snapshot(3, "key-3")}
	process(t, a, batch...)
	require.Equal(t, []string{"usage/hour/date=2026-03-29/shardId-01_1001_1003_"}, []string{files.names()[0][:len("usage/hour/date=2026-03-29/shardId-01_1001_1003_")]})
	before := files.files[files.names()[0]]
	process(t, a, batch...)
	require.Len(t, files.files, 1)
	assert.Equal(t, before, files.files[files.names()[0]])
	assert.Equal(t, aggregator.Result{Counted: 2}, process(t, a, batch[0], batch[2]))
	assert.Len(t, files.files, 2, "of equal numbers at the ends")
	assert.Equal(t, aggregator.Result{Counted: 2, Repeated: 1}, process(t, a, batch[0], batch[1], batch[1]))
	assert.Len(t, files.files, 3)

	lambda := snapshot(9, "key-9")
	lambda.Shard = ""
	process(t, a, lambda)
	assert.Contains(t, strings.Join(files.names(), " "), "usage/hour/date=2026-03-29/1009_1009_")
}

// TestFilesAreBounded: many lines are several files, with every line in one.
func TestFilesAreBounded(t *testing.T) {
	a, files := newArchive(t, &Options{MaxLines: 10, Writers: 2})
	var batch []aggregator.Record
	for i := range 105 {
		batch = append(batch, snapshot(i, fmt.Sprint("key-", i)))
	}
	assert.Equal(t, aggregator.Result{Counted: 105}, process(t, a, batch...))
	assert.Len(t, files.files, 11)
	assert.Len(t, files.lines(t), 105)
}

// TestFilesThatCannotBeWritten: their records are to come again, and no others.
func TestFilesThatCannotBeWritten(t *testing.T) {
	a, files := newArchive(t, nil)
	change := schema.Key{PK: "AUDIT#$SYSTEM", SK: "#AUDIT#x"}
	files.fails = func(name string) error {
		if strings.HasPrefix(name, "usage/") {
			return errors.New("the disk is full")
		}
		return nil
	}
	r := process(t, a, snapshot(1, "key-1"), expired(2, change, schema.Item{}), snapshot(3, "key-2"))
	assert.Equal(t, 1, r.Counted)
	require.Len(t, r.Failures, 2)
	for i, want := range []string{"event-00001", "event-00003"} {
		assert.Equal(t, want, r.Failures[i].Record.EventID)
		assert.False(t, r.Failures[i].Unreadable)
		assert.ErrorContains(t, r.Failures[i].Err, "the disk is full")
		assert.ErrorContains(t, r.Failures[i].Err, "usage/hour/date=2026-03-29/")
	}
	files.fails = nil
	assert.Equal(t, aggregator.Result{Counted: 2}, process(t, a, r.Failures[0].Record, r.Failures[1].Record))
	assert.Len(t, files.lines(t), 3)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	puts := files.puts
	r, err := a.Process(ended, []aggregator.Record{snapshot(4, "key-4")})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, r.Failures, 1)
	assert.Equal(t, puts, files.puts)

	blind := snapshot(5, "key-5")
	blind.Old = nil
	r = process(t, a, blind)
	require.Len(t, r.Failures, 1)
	assert.True(t, r.Failures[0].Unreadable)
	assert.ErrorContains(t, r.Failures[0].Err, "NEW_AND_OLD_IMAGES")
}

// TestHostileNames: nothing that a record holds leads to another folder.
func TestHostileNames(t *testing.T) {
	for _, hostile := range []string{"../../etc/passwd", "/etc", "a\\..\\b", "\x00", "", strings.Repeat("é/", 5000), "..", ".", "<img onerror=x>", "con"} {
		a, files := newArchive(t, nil)
		r := expired(1, schema.Key{PK: hostile + "/AUDIT#" + hostile, SK: "#AUDIT#" + hostile}, schema.Item{"timestamp": schema.String(hostile), "event_id": schema.String(hostile)})
		r.Shard, r.Sequence, r.EventID = hostile, hostile, hostile
		u := snapshot(2, hostile)
		u.Shard, u.Sequence = hostile, hostile
		got := process(t, a, r, u)
		assert.Empty(t, got.Failures)
		for _, name := range files.names() {
			assert.Regexp(t, `^(audit|usage/hour)/date=[0-9]{4,5}-[0-9]{2}-[0-9]{2}/[A-Za-z0-9_-]+\.jsonl\.gz$`, name)
			assert.Less(t, len(name), 255)
			assert.NoError(t, Folder(t.TempDir()).Put(t.Context(), name, files.files[name]))
		}
	}
}

func TestBadInput(t *testing.T) {
	for name, test := range map[string]struct {
		w    Writer
		opts Options
		want string
	}{
		"no writer":  {nil, Options{}, "writer"},
		"no writers": {&memory{}, Options{Writers: -1}, "Writers"},
		"no lines":   {&memory{}, Options{MaxLines: -1}, "MaxLines"},
	} {
		_, err := New(test.w, &test.opts)
		var invalid *dynalimit.ValidationError
		require.ErrorAs(t, err, &invalid, name)
		assert.ErrorContains(t, err, test.want, name)
	}
}

// BenchmarkProcess makes a file of 1,000 lines.
func BenchmarkProcess(b *testing.B) {
	a, err := New(&memory{}, nil)
	require.NoError(b, err)
	var batch []aggregator.Record
	for i := range 1000 {
		batch = append(batch, snapshot(i, fmt.Sprint("key-", i)))
	}
	for b.Loop() {
		_, _ = a.Process(b.Context(), batch)
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
