package live

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// program runs a model as bubbletea does: what commands bring is taken in, in turn.
type program struct {
	*model
	messages chan tea.Msg
}

func (p *program) start(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	go func() {
		switch msg := cmd().(type) {
		case nil:
		case tea.BatchMsg:
			for _, c := range msg {
				p.start(c)
			}
		default:
			p.messages <- msg
		}
	}()
}

// runFor takes in what comes for a time.
func (p *program) runFor(d time.Duration) {
	for over := time.After(d); ; {
		select {
		case <-over:
			return
		case msg := <-p.messages:
			p.update(msg)
		}
	}
}

func (p *program) update(msg tea.Msg) {
	_, cmd := p.Update(msg)
	p.start(cmd)
}

func (p *program) press(keys string) {
	for _, k := range keys {
		p.update(tea.KeyPressMsg{Code: k, Text: string(k)})
		synctest.Wait()
		p.runFor(time.Millisecond)
	}
}

// TestReadingsKeepTheirTurn: those that somebody asks for between two, or by going on after a
// pause, are not followed by more of them.
func TestReadingsKeepTheirTurn(t *testing.T) {
	for _, keys := range []string{"", "rrrrr", "pppppp", "rprrpr"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer func() { end(); synctest.Wait() }()
			count := 0
			view := Live{Every: 10 * time.Second, Now: time.Now, Style: &term.Output{}, What: What{Resource: "x"}}
			view.Read = func(context.Context, What) Reading { count++; return Reading{At: time.Now()} }
			p := &program{&model{Live: view, ctx: ctx, what: view.What}, make(chan tea.Msg, 100)}
			p.start(p.Init())
			p.runFor(time.Second)
			p.press(keys)
			before := count
			p.runFor(100 * time.Second)
			assert.InDelta(t, 10, count-before, 1, "%q", keys)
		})
	}
}

// marked is a table in which one entity is blocked.
type marked struct {
	Store
	entity string
	looks  int
}

func (s *marked) ResourceBuckets(_ context.Context, resource string) iter.Seq2[dynalimit.Bucket, error] {
	return func(yield func(dynalimit.Bucket, error) bool) { yield(bucket(s.entity, resource, 1, 2, 3), nil) }
}

func (s *marked) GetEntities(_ context.Context, ids []string) ([]dynalimit.Entity, error) {
	return make([]dynalimit.Entity, len(ids)), nil
}

func (s *marked) GetConfigs(_ context.Context, at []dynalimit.Scope) ([]dynalimit.ScopedConfig, error) {
	s.looks++
	configs := make([]dynalimit.ScopedConfig, len(at))
	for i, scope := range at {
		configs[i].Config.Blocked = scope.Entity == s.entity && scope.Resource == ""
	}
	return configs, nil
}

// TestMarksAreOfWhatIsLookedAt: they are kept for half a minute, while nothing else is looked
// at and the clock goes on.
func TestMarksAreOfWhatIsLookedAt(t *testing.T) {
	now := noon
	s := &marked{entity: "shut"}
	r := &Reader{Store: s, Most: 10, Now: func() time.Time { return now }}
	for _, step := range []struct {
		resource string
		passes   time.Duration
		looks    int
	}{{"x", 0, 1}, {"x", 29 * time.Second, 1}, {"x", time.Second, 2}, {"y", time.Second, 3}, {"x", time.Second, 4}, {"x", -time.Hour, 5}} {
		now = now.Add(step.passes)
		got := r.Read(t.Context(), What{Resource: step.resource})
		require.NoError(t, got.Err)
		assert.Equal(t, dynalimit.LevelEntityDefault, got.Blocked[Key{"shut", step.resource}], "%+v", step)
		assert.Equal(t, step.looks, s.looks, "%+v", step)
	}
}

// TestWaitOfCenturies is never less than it is.
func TestWaitOfCenturies(t *testing.T) {
	b := bucket("a", "x", 0, 1, 0)
	b.Limits[0].Limit = dynalimit.Limit{Name: "rpm", Capacity: 1_000_000_000, Burst: 1_000_000_000, RefillAmount: 1, RefillPeriod: 24 * time.Hour}
	rows, _ := Rows(reading(noon, b), Counts{}, dynalimit.Amounts{"rpm": 1_000_000_000})
	assert.Equal(t, "more than 10 years", fitsText(rows[0]))
	assert.Positive(t, *rows[0].FitsMS)
}

// TestScreensOfAnySize: one of a single character too, and rows that nobody has seen so many
// of.
func TestScreensOfAnySize(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {1, 500}, {500, 1}, {500, 200}, {2, 3}} {
		for _, from := range []int{0, 5, 1 << 30} {
			s := busy(size[0], size[1])
			s.From = from
			lines := s.Lines()
			assert.Len(t, lines, size[1])
			for _, line := range lines {
				assert.LessOrEqual(t, ansi.StringWidth(line), size[0])
			}
		}
	}
}
