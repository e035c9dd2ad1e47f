package llmhttp

import (
	"crypto/rand"
	"strings"
	"sync"

	"github.com/dynalimit/dynalimit/llm"
)

// denials are the last denials of this process, by their marks: SDKs keep the message of an error,
// and hide the rest.
var denials recent

// recent keeps the last denials.
type recent struct {
	mu    sync.Mutex
	by    map[string]*llm.DeniedError
	marks [1024]string // in the order of their making
	next  int
}

const (
	markStart = "denial-"
	markLen   = len(markStart) + 26 // of rand.Text
)

// keep keeps a denial, for which it drops the oldest.
func (r *recent) keep(d *llm.DeniedError) (mark string) {
	mark = markStart + rand.Text()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = make(map[string]*llm.DeniedError, len(r.marks))
	}
	delete(r.by, r.marks[r.next])
	r.by[mark], r.marks[r.next] = d, mark
	r.next = (r.next + 1) % len(r.marks)
	return mark
}

// find finds the denial whose mark is in a text.
func (r *recent) find(text string) (*llm.DeniedError, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		i := strings.Index(text, markStart)
		if i < 0 || len(text)-i < markLen {
			return nil, false
		}
		if d, ok := r.by[text[i:i+markLen]]; ok {
			return d, true
		}
		text = text[i+len(markStart):]
	}
}
