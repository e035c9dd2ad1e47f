package budget

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestALongSpoolIsReplayedSegmentBySegment: what is read at a time does not grow with the spool, its
// count needs no record read, records are acknowledged while it is replayed, and what is done of it
// is seen before all is.
func TestALongSpoolIsReplayedSegmentBySegment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s, err := openSpool(path, 1<<30)
	require.NoError(t, err)
	const records = 10_000
	for from := 0; from < records; from += 100 {
		var entries []SpooledUsage
		for i := from; i < from+100; i++ {
			entries = append(entries, SpooledUsage{Org: orgO, App: appA, Usage: call(i), Received: fixtureNow})
		}
		require.NoError(t, s.appendRecords(entries...))
	}
	require.NoError(t, s.close())
	files, err := filepath.Glob(path + ".0*")
	require.NoError(t, err)
	require.Greater(t, len(files), 2)
	for _, file := range files {
		assert.Less(t, fileSize(t, file), int64(segmentSize+100<<10))
	}

	s, err = openSpool(path, 1<<30)
	require.NoError(t, err)
	lines := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		n, _ := s.countPending()
		return n
	}
	require.Equal(t, records, lines())
	down := errors.New("down")
	require.ErrorIs(t, s.replayAll(func(batch []spoolLine) ([]bool, error) { return make([]bool, len(batch)), down }), down)
	require.Equal(t, records, lines(), "nothing is lost in an outage")

	seen, late := map[string]int{}, 0
	send := func(batch []spoolLine) ([]bool, error) {
		assert.LessOrEqual(t, len(batch), replayBatch)
		done := make([]bool, len(batch))
		for i, line := range batch {
			seen[line.entry.Usage.RequestID]++
			done[i] = len(seen)%100 != 0 // some wait
		}
		if late++; late <= 3 {
			require.NoError(t, s.appendRecords(SpooledUsage{Org: orgO, App: appA, Usage: call(records + late), Received: fixtureNow}))
		}
		if late == 20 {
			assert.Less(t, lines(), records-4000)
		}
		return done, nil
	}
	for range 10 {
		require.NoError(t, s.replayAll(send))
		if lines() == 0 {
			break
		}
	}
	assert.Zero(t, lines())
	assert.Len(t, seen, records+3)
	files, err = filepath.Glob(path + ".0*")
	require.NoError(t, err)
	assert.Empty(t, files)
	assert.Zero(t, fileSize(t, path))
	require.NoError(t, s.close())
}

// TestAFullSpoolTakesNoMore: the caller is told, and so is Health.
func TestAFullSpoolTakesNoMore(t *testing.T) {
	w, k, path := spooling(t, func(o *Options) { o.SpoolBytes = 1000 })
	w.db.SetFaults(refuseAll("AccessDeniedException"))
	var err error
	kept := 0
	for i := range 10 {
		r, submitErr := k.Submit(t.Context(), orgO, appA, call(i))
		if err = submitErr; err != nil {
			break
		}
		require.True(t, r.Spooled)
		kept++
	}
	require.ErrorIs(t, err, ErrSpoolFull)
	require.ErrorContains(t, err, "Options.SpoolBytes")
	assert.NotZero(t, kept)
	assert.Equal(t, []int64{int64(kept), fileSize(t, path)}, []int64{int64(k.Health().Spooled), k.Health().SpoolBytes})
	w.db.SetFaults(nil)
	require.NoError(t, k.Replay(t.Context()))
	assert.Zero(t, k.Health().SpoolBytes)
}
