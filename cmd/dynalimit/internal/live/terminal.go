package live

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// Live is a live view on a terminal.
type Live struct {
	// Read reads what is looked at. It is called by one goroutine at a time.
	Read func(context.Context, What) Reading
	// What is looked at first.
	What What
	// Asked is what is to fit, none for nothing.
	Asked dynalimit.Amounts
	// By is the order at first.
	By Order
	// Every is the time between two readings.
	Every time.Duration
	// Style is the terminal's.
	Style *term.Output
	// Now is the clock.
	Now func() time.Time
}

// Show shows the view until somebody quits it, or ctx ends. However it ends, the terminal
// is as it was.
func (v Live) Show(ctx context.Context, in io.Reader, out io.Writer) error {
	reading, stop := context.WithCancel(ctx)
	defer stop() // a reading under way ends with the view
	m := &model{Live: v, ctx: reading, what: v.What}
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler(), tea.WithEnvironment(os.Environ()))
	_, err := program.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, tea.ErrInterrupted) {
		return context.Canceled
	}
	return err
}

// model is the view's state between two messages.
type model struct {
	Live
	ctx  context.Context //nolint:containedctx // the program's life
	what What

	last    Reading
	rows    []Row
	before  Counts
	reading bool
	// readings counts those that were begun; round counts what is looked at: an answer about
	// what was looked at before is dropped.
	readings, round int
	since           time.Time

	width, height, from, chosen int
	filter                      string
	typing, paused, help        bool
}

// Messages.
type (
	arrived struct {
		Reading
		round int
	}
	// due asks for the reading after the one of its number, unless another came meanwhile.
	due  struct{ after int }
	tick struct{}
)

// redraw is how often the screen is drawn while nothing happens, for the time that a
// reading takes.
const redraw = time.Second

// Init begins the first reading.
func (m *model) Init() tea.Cmd { return tea.Batch(m.read(), m.ticks()) }

func (m *model) ticks() tea.Cmd { return m.after(redraw, tick{}) }

// after is a message in some time; none once the view has ended.
func (m *model) after(wait time.Duration, msg tea.Msg) tea.Cmd {
	ctx := m.ctx
	return func() tea.Msg {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			return msg
		}
	}
}

// read begins a reading, unless one is under way.
func (m *model) read() tea.Cmd {
	if m.reading {
		return nil
	}
	m.reading, m.since = true, m.Now()
	m.readings++
	ctx, what, round, read := m.ctx, m.what, m.round, m.Read
	return func() tea.Msg { return arrived{read(ctx, what), round} }
}

// Update takes a message in.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case arrived:
		return m, m.arrived(msg)
	case due:
		if msg.after == m.readings && !m.paused {
			return m, m.read()
		}
	case tick:
		return m, m.ticks()
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

// arrived shows a reading, and sets the time of the next.
func (m *model) arrived(a arrived) tea.Cmd {
	m.reading = false
	if a.round != m.round {
		return m.read()
	}
	if a.Err != nil {
		m.last.Err = a.Err // what was read before stays on the screen
		if m.last.At.IsZero() {
			m.last.At = a.At
		}
	} else {
		m.last = a.Reading
		m.rows, m.before = Rows(a.Reading, m.before, m.Asked)
		m.chosen = max(0, min(m.chosen, len(a.Resources)-1))
	}
	return m.after(m.Every, due{m.readings})
}

// key acts on a key.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	if k.String() == "ctrl+c" {
		return tea.Quit
	}
	if m.typing {
		m.typed(k)
		return nil
	}
	switch k.String() {
	case "q":
		return tea.Quit
	case "s":
		m.By, m.from = m.By.next(), 0
	case "/":
		m.typing = !m.choosing()
	case "?":
		m.help = !m.help
	case "enter":
		return m.choose()
	case "esc":
		return m.back()
	case "r":
		return m.read()
	default:
		return m.other(k.String())
	}
	return nil
}

// other is a key that pauses, goes on, or scrolls.
func (m *model) other(key string) tea.Cmd {
	if key != "p" && key != "space" {
		m.scroll(key)
		return nil
	}
	if m.paused = !m.paused; m.paused {
		return nil
	}
	return m.read()
}

// typed is a key while the filter is typed.
func (m *model) typed(k tea.KeyPressMsg) {
	m.from = 0
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.filter = string(r[:len(r)-1])
		}
	default:
		m.filter += term.Plain(k.Key().Text)
	}
}

func (m *model) choosing() bool { return m.what.choosing() }

func (w What) choosing() bool { return w.Resource == "" && len(w.Entities) == 0 }

// choose looks at the resource that was chosen.
func (m *model) choose() tea.Cmd {
	if !m.choosing() || len(m.last.Resources) == 0 {
		return nil
	}
	return m.look(What{Resource: m.last.Resources[m.chosen]})
}

// back drops what was opened last: help, the filter, the resource.
func (m *model) back() tea.Cmd {
	switch {
	case m.help:
		m.help = false
	case m.filter != "":
		m.filter = ""
	case !m.choosing() && m.Live.What.choosing():
		return m.look(What{})
	}
	return nil
}

// look turns to something else.
func (m *model) look(at What) tea.Cmd {
	m.what, m.last, m.rows, m.before = at, Reading{}, nil, Counts{}
	m.from, m.filter, m.paused = 0, "", false
	m.round++
	return m.read()
}

// scroll moves what is shown, or what is chosen.
func (m *model) scroll(key string) {
	page := max(1, m.height-6)
	step := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "home": -1 << 30, "end": 1 << 30}[key]
	if m.choosing() {
		m.chosen = max(0, min(m.chosen+step, len(m.last.Resources)-1))
		m.from = max(0, m.chosen-page+1)
		return
	}
	m.from = max(0, min(m.from+step, len(Filter(m.rows, m.filter))-1))
}

// style is the terminal's, as wide as it is now.
func (m *model) style() *term.Output {
	return m.Style.Sheet(nil, m.width)
}

// screen is what is to be drawn.
func (m *model) screen() Screen {
	rows := Filter(m.rows, m.filter)
	Sort(rows, m.By)
	s := Screen{
		Title: m.what.Title(), Note: m.what.Note(), Rows: rows, Of: len(m.rows), Last: m.last, Now: m.Now(), By: m.By, Filter: m.filter,
		Typing: m.typing, Paused: m.paused, Help: m.help, Every: m.Every, Keys: true, Style: m.style(), Height: m.height, From: m.from, Chosen: m.chosen,
	}
	if m.choosing() {
		s.Choices = append([]string{}, m.last.Resources...)
	}
	if m.reading {
		s.Waiting = m.Now().Sub(m.since)
	}
	return s
}

// View is called by the program.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen().Lines(), "\n"))
	v.AltScreen = true
	return v
}

// Title says what is looked at.
func (w What) Title() string {
	switch {
	case len(w.Entities) > 0 && w.Resource != "":
		return strings.Join(w.Entities, ", ") + " and children, on " + w.Resource
	case len(w.Entities) > 0:
		return strings.Join(w.Entities, ", ") + " and children"
	case w.Resource != "":
		return "buckets of " + w.Resource
	}
	return "resources"
}

// Note says what to know about it.
func (w What) Note() string {
	switch {
	case len(w.Entities) > 0:
		return "Children are found by an index, which may lag by a moment."
	case w.Resource != "":
		return "Found by an index, which may lag by a moment; levels are of now."
	}
	return "Those with limits of their own, and those of buckets."
}
