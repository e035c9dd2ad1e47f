package term

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
)

func TestSpark(t *testing.T) {
	for _, c := range []struct {
		values []int64
		width  int
		want   string
	}{
		{nil, 10, ""},
		{[]int64{0, 0}, 10, "··"},
		{[]int64{0, 1, 2, 3, 4, 5, 6, 7, 8}, 10, "·▁▂▃▄▅▆▇█"},
		{[]int64{1, 1000}, 10, "▁█"},
		{[]int64{-5, 0, 5}, 10, "-·█"},
		{[]int64{-5, -1}, 10, "--"},
		{[]int64{math.MaxInt64, 1, math.MinInt64}, 10, "█▁-"},
		{[]int64{8, 1, 1, 4}, 2, "█▄"},
		{[]int64{0, 0, 9, 0, 0, 0}, 3, "·█·"},
		{[]int64{8, 1}, 0, "█▁"},
	} {
		assert.Equal(t, c.want, Spark(c.values, c.width), "%v in %d", c.values, c.width)
	}
	assert.Equal(t, 7, utf8.RuneCountInString(Spark(make([]int64, 1000), 7)))
}

// TestBarsFit: no line is wider than the terminal, whatever the names are, and each text is
// there to its last character.
func TestBarsFit(t *testing.T) {
	bars := []Measure{
		{Name: "key-1", Text: "1,234,567 tokens", Share: 1},
		{Name: "日本語の名前", Text: "12", Share: 0.5},
		{Name: strings.Repeat("x", 300) + "\x1b[2J\n", Text: "-5", Share: -1},
		{Name: "", Text: "", Share: math.NaN()},
	}
	for _, width := range []int{1, 5, 12, 20, 30, 40, 80, 200} {
		var out bytes.Buffer
		(&Output{Writer: &out, Width: width, Colour: true}).Bars(2, bars)
		text := out.String()
		assert.NotContains(t, text, "\x1b[2J")
		for _, line := range strings.Split(text, "\n") {
			assert.LessOrEqual(t, ansi.StringWidth(line), width, line)
		}
		assert.Contains(t, strings.NewReplacer("\n", "", " ", "").Replace(text), "1,234,567tokens")
		if width >= 20 {
			assert.Contains(t, text, "1,234,567 tokens")
		}
		assert.Equal(t, width >= 26, strings.Count(text, "\n") == len(bars), width)
		assert.Equal(t, width >= 40, strings.Contains(text, "█"), width)
	}
}

func TestBars(t *testing.T) {
	var out bytes.Buffer
	(&Output{Writer: &out}).Bars(2, []Measure{{Name: "gpt-4", Text: "1,000  80 %", Share: 1}, {Name: "o3", Text: "250  20 %", Share: 0.25}})
	assert.Equal(t, "  gpt-4  "+strings.Repeat("█", 32)+"  1,000  80 %\n"+
		"  o3     "+strings.Repeat("█", 8)+strings.Repeat("░", 24)+"    250  20 %\n", out.String())
}

// TestWithoutUnicode: what is drawn is drawn in ASCII where the terminal knows no more, in the
// same columns; what programs read is as it was.
func TestWithoutUnicode(t *testing.T) {
	var out bytes.Buffer
	o := &Output{Writer: &out, Width: 60, ASCII: true}
	o.Bars(0, []Measure{{Name: "a → b …", Text: "1", Share: 0.5}})
	_, _ = o.Write([]byte(Spark([]int64{0, -1, 1, 2, 3, 4, 5, 6, 7, 8}, 20) + "▒–\n"))
	for _, r := range out.String() {
		assert.Less(t, r, rune(0x80))
	}
	assert.Equal(t, "a > b .  ################................  1\n.-_,:=+*%#+-\n", out.String())
	out.Reset()
	o.JSON = true
	_, _ = o.Write([]byte("→ █"))
	assert.Equal(t, "→ █", out.String())
}

func TestWhichTerminalsKnowUnicode(t *testing.T) {
	for _, c := range []struct {
		env   map[string]string
		ascii bool
	}{
		{nil, false},
		{map[string]string{"LANG": "en_US.UTF-8"}, false},
		{map[string]string{"LANG": "de_DE.utf8"}, false},
		{map[string]string{"LANG": "C"}, true},
		{map[string]string{"LANG": "C.UTF-8"}, false},
		{map[string]string{"LC_CTYPE": "en_US.ISO-8859-1", "LANG": "en_US.UTF-8"}, true},
		{map[string]string{"LC_ALL": "en_US.UTF-8", "LC_CTYPE": "POSIX"}, false},
		{map[string]string{"TERM": "linux", "LC_ALL": "POSIX"}, true},
	} {
		assert.Equal(t, c.ascii, asciiOnly(func(name string) string { return c.env[name] }), "%v", c.env)
	}
}
