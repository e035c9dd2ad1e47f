package term

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestColourOnlyWhereItCanBeShown(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	require.NoError(t, err)
	defer device.Close()

	env := func(vars map[string]string) func(string) string {
		return func(name string) string { return vars[name] }
	}
	assert.False(t, New(file, file, env(nil)).Colour, "a file")
	assert.True(t, New(file, device, env(nil)).Colour, "a terminal")
	assert.False(t, New(file, device, env(map[string]string{"NO_COLOR": "1"})).Colour, "NO_COLOR")
	assert.False(t, New(file, device, env(map[string]string{"TERM": "dumb"})).Colour, "a dumb terminal")
	assert.Nil(t, New(file, device, env(nil)).In, "a file answers no questions")

	assert.Equal(t, "x", (&Output{}).Bold("x"))
	assert.Equal(t, "\x1b[1mx\x1b[0m", (&Output{Colour: true}).Bold("x"))
}

func TestTableFitsTheTerminal(t *testing.T) {
	titles, rows := []string{"NAME", "OF"}, [][]string{{"a-very-long-name-of-an-entity", "日本語の名前"}, {"b\x1b[31m\n", "x"}}
	for width, want := range map[int]string{
		0: "NAME                           OF\n" +
			"a-very-long-name-of-an-entity  日本語の名前\n" +
			"b�[31m�                        x\n",
		26: "NAME          OF\n" +
			"a-very-long…  日本語の名前\n" +
			"b�[31m�       x\n",
	} {
		var out bytes.Buffer
		(&Output{Writer: &out, Width: width}).Table(titles, rows)
		assert.Equal(t, want, out.String(), "%d columns", width)
	}
}

// TestWholeTable cuts nothing: where there is no room for columns, rows are blocks.
func TestWholeTable(t *testing.T) {
	titles, rows := []string{"START", "LIMIT", "CONSUMED"}, [][]string{{"2026-01-21 17:00", "tpm", "1,491,730"}, {"", "rpm", "    1,899"}}
	for width, want := range map[int]string{
		34: "START             LIMIT  CONSUMED\n" +
			"2026-01-21 17:00  tpm    1,491,730\n" +
			"                  rpm        1,899\n",
		33: "2026-01-21 17:00\n  LIMIT tpm\n  CONSUMED 1,491,730\n\n  LIMIT rpm\n  CONSUMED 1,899\n",
		12: "2026-01-21 17:00\n  LIMIT tpm\n  CONSUMED 1,491,730\n\n  LIMIT rpm\n  CONSUMED 1,899\n",
	} {
		var out bytes.Buffer
		(&Output{Writer: &out, Width: width}).WholeTable(titles, rows)
		assert.Equal(t, want, out.String(), "%d columns", width)
	}
}

func TestBar(t *testing.T) {
	for _, test := range []struct {
		used, held float64
		want       string
	}{{0, 0, "░░░░"}, {0.5, 0.25, "██▒░"}, {1, 1, "████"}, {2, 0, "████"}, {-1, 0, "░░░░"}} {
		assert.Equal(t, test.want, Bar(test.used, test.held, 4))
	}
}

// TestWaitIsNamed: after a second of silence, again every ten, and not while results come.
func TestWaitIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		notes := new(shared)
		o := &Output{Writer: &out, Notes: notes}
		over := o.Watch("DynamoDB")
		elapse(900 * time.Millisecond)
		_, _ = o.Write([]byte("a row\n"))
		elapse(900 * time.Millisecond)
		require.Empty(t, notes.String())
		elapse(200 * time.Millisecond)
		assert.Equal(t, "dynalimit: waiting for DynamoDB; Ctrl-C ends it\n", notes.String())
		elapse(10 * time.Second)
		assert.Contains(t, notes.String(), "still waiting for DynamoDB, 11s; Ctrl-C ends it\n")
		over()
		said := len(notes.String())
		elapse(time.Minute)
		assert.Equal(t, said, len(notes.String()))
	})
}

func TestConfirm(t *testing.T) {
	var notes bytes.Buffer
	asked := func(answer string) error {
		o := &Output{Notes: &notes, In: strings.NewReader(answer)}
		return o.Confirm(t.Context(), "Delete the table limits?", "limits")
	}
	require.NoError(t, asked("limits\n"))
	assert.Equal(t, "Delete the table limits?\nType limits to go on: ", notes.String())
	require.ErrorIs(t, asked("yes\n"), ErrDeclined)
	require.ErrorContains(t, asked("yes\n"), "type limits")
	require.ErrorIs(t, asked(""), ErrDeclined)
	var nobody *NobodyError
	require.ErrorAs(t, (&Output{Notes: &notes}).Confirm(t.Context(), "Delete it?", "x"), &nobody)
	assert.ErrorContains(t, nobody, "--yes")
}

// elapse lets a bubble's time pass, and everything that it sets off.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// shared is a buffer that a test reads while what it tests may write to it.
type shared struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
