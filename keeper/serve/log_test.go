package keeper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reader reads a log, or does not.
type reader struct {
	lines  bytes.Buffer
	stops  chan struct{} // a write waits for one, if it is not nil
	broken error
}

func (r *reader) Write(p []byte) (int, error) {
	if r.stops != nil {
		<-r.stops
	}
	if r.broken != nil {
		return 0, r.broken
	}
	return r.lines.Write(p)
}

// said is the messages of the log, and of a line about dropped ones their number.
func (r *reader) said(t *testing.T) (messages []string) {
	for line := range strings.Lines(r.lines.String()) {
		var record struct {
			Msg   string
			Lines *int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &record), line)
		if record.Lines != nil {
			record.Msg = fmt.Sprint("dropped ", *record.Lines)
		}
		messages = append(messages, record.Msg)
	}
	return messages
}

// TestLogKeepsEveryLineInOrder: what is read is written whole, and Close waits for it.
func TestLogKeepsEveryLineInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		log := NewLog(r)
		logger := slog.New(slog.NewJSONHandler(log, nil))
		var want []string
		for i := range 10_000 {
			want = append(want, fmt.Sprint(i))
			logger.Info(want[i])
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		log.Close(time.Hour)
		assert.Equal(t, want, r.said(t))
		lines, dropping := log.Dropped()
		assert.Zero(t, lines)
		assert.False(t, dropping)
	})
}

// TestLogWaitsForNobody: while nobody reads, lines wait up to a bound; the others are dropped
// and counted, and a line tells how many, once.
func TestLogWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{stops: make(chan struct{})}
		log := NewLog(r)
		logger := slog.New(slog.NewJSONHandler(log, nil))
		logger.Info("being written")
		synctest.Wait()
		const all = 20_000
		for range all {
			logger.Info(strings.Repeat("x", 100))
		}
		lines, dropping := log.Dropped()
		assert.True(t, dropping)
		assert.Greater(t, lines, int64(all/2))
		assert.LessOrEqual(t, cap(log.waiting), 2*logRoom)
		close(r.stops)
		synctest.Wait()
		logger.Info("last")
		log.Close(time.Hour)
		said := r.said(t)
		assert.Equal(t, "being written", said[0])
		assert.Equal(t, []string{fmt.Sprint("dropped ", lines), "last"}, said[len(said)-2:])
		assert.Len(t, said, 1+all-int(lines)+2)
		after, dropping := log.Dropped()
		assert.Equal(t, lines, after)
		assert.False(t, dropping)
	})
}

// TestLogEndsThoughNobodyReads: Close waits so long and no longer, and nothing that is said
// after it waits at all.
func TestLogEndsThoughNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{stops: make(chan struct{})}
		log := NewLog(r)
		fmt.Fprintln(log, "never read")
		synctest.Wait()
		began := time.Now()
		log.Close(time.Second)
		assert.Equal(t, time.Second, time.Since(began))
		fmt.Fprintln(log, "dropped")
		lines, _ := log.Dropped()
		assert.EqualValues(t, 1, lines)
		close(r.stops)
	})
}

// TestLogSaysWhatComesAfterItsEnd: where somebody reads, an error of the end is not lost.
func TestLogSaysWhatComesAfterItsEnd(t *testing.T) {
	r := &reader{}
	log := NewLog(r)
	log.Close(time.Minute)
	fmt.Fprintln(log, "failed")
	assert.Equal(t, "failed\n", r.lines.String())
}

// TestServiceAnswersThoughNobodyReadsItsLog: every request is answered and /ready says what
// is wrong, and the service ends in order.
func TestServiceAnswersThoughNobodyReadsItsLog(t *testing.T) {
	read, write := io.Pipe() // which nobody reads
	log := NewLog(write)
	r := startLogging(t, log, nil, nil)
	status, text := r.get(t, r.MetricsURL()+"/ready")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, "ok\n", text)
	for dropping := false; !dropping; _, dropping = log.Dropped() {
		_, _ = log.Write(bytes.Repeat([]byte("x"), logRoom/10))
	}
	for range 3 {
		status, _ := r.get(t, r.URL()+"/health")
		require.Equal(t, http.StatusOK, status)
	}
	status, text = r.get(t, r.MetricsURL()+"/ready")
	assert.Equal(t, http.StatusOK, status, "where the same reads all logs, everybody would be out")
	assert.Contains(t, text, "log are dropped")
	assert.Positive(t, r.scraped(t)["dynalimit_keeper_log_lines_dropped_total"])
	require.NoError(t, r.stop())
	log.Close(time.Millisecond)
	read.Close()
	log.Close(time.Minute)
}
