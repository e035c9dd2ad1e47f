package lane

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// longestMarkWait bounds the random wait before the mark of a denial: of many processes that deny at once, most then
	// see the mark of another one.
	longestMarkWait = 2 * time.Second
	// mostMarks bounds the remembered marks.
	mostMarks = 10_000
)

// denialMarks writes the marks of denials. It knows those that are begun, and those that the role must not write. It is
// safe for concurrent use.
type denialMarks struct {
	work   *work
	turns  *Turns
	models *models

	mu    sync.Mutex
	begun map[denialMark]struct{}
}

// denialMark is a mark in a bucket: of a limit, in a window, with a burst. shadow means that the limit is in shadow and
// denied nothing.
type denialMark struct {
	BucketKey
	limit         string
	shadow        bool
	window, burst int64
}

// beginMark records a mark as begun and returns true, or returns false if it was begun before. It forgets all
// other marks if there are 10,000.
func (d *denialMarks) beginMark(m denialMark) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, is := d.begun[m]; is {
		return false
	}
	if d.begun == nil || len(d.begun) >= mostMarks {
		d.begun = map[denialMark]struct{}{}
	}
	d.begun[m] = struct{}{}
	return true
}

// forgetMark forgets a begun mark, so that a later denial may begin it again.
func (d *denialMarks) forgetMark(m denialMark) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.begun, m)
}

// markDenial starts the mark of a denial by a quota in a window or, with shadow, of one that did not happen,
// and returns at once. It does nothing unless the last image lacks the mark, asks for it by an alert, and is of
// that window or a later one. After at most 2 s it reads the bucket, and writes the mark if it is still
// missing.
func (d *denialMarks) markDenial(at site, memory *Memory, limit string, window int64, shadow bool) {
	image := memory.lastImage()
	if image == nil || !image.LacksDenialMark(limit, shadow) || d.models.areForbidden() {
		return
	}
	stored := &image.Limits[image.Set.Index(limit)]
	m := denialMark{*at.BucketKey, limit, shadow, int64(stored.Window), stored.Burst}
	if m.window < window || !d.beginMark(m) {
		return
	}
	d.work.Started()
	go func() {
		defer d.work.Stopped()
		if !at.Sleep(rand.N(longestMarkWait)) || !d.turns.wait(at.life) || !writeDenialMark(at, memory, image.Set, limit, shadow) {
			d.forgetMark(m)
		}
	}()
}

// writeDenialMark reads the bucket, and marks a denial if the mark is missing. It gives the images of both
// requests to memory. forbidden means that the role must not write the mark; it is false after any other
// failure.
func writeDenialMark(at site, memory *Memory, hint *schema.LimitSet, limit string, shadow bool) (forbidden bool) {
	image, asked, err := at.ReadPatiently(at.life, hint)
	if err != nil {
		return false
	}
	memory.Observe(image, asked)
	if image == nil || !image.LacksDenialMark(limit, shadow) {
		return false
	}
	asked = at.access.Ask()
	a := at.access.Store.Update(at.life, at.Key(), image.MarkDenial(limit, shadow), hint, at.IDs.Slot)
	if a.Seen {
		memory.Observe(a.Image, asked)
	}
	return ddb.DeniesAccess(a.Err)
}

// lastImage returns the last known image of the bucket, of any age; nil without one, and if the bucket did not
// exist.
func (m *Memory) lastImage() *schema.Image {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sight.image
}
