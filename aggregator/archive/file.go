package archive

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"

	"github.com/dynalimit/dynalimit/aggregator"
)

// longestPart bounds the length of a shard or a sequence number in a name.
const longestPart = 64

// file is the content of one write.
type file struct {
	folder  string
	lines   []Line
	records []aggregator.Record // of the lines
}

// name returns the file's path below the archive, derived from its records. The same records always get the
// same path.
func (f *file) name() string {
	first, last := f.records[0], f.records[len(f.records)-1]
	digest := sha256.New()
	for _, r := range f.records {
		_, _ = digest.Write([]byte(r.EventID + "\x00" + r.Sequence + "\x00"))
	}
	parts := []string{safePart(first.Shard), safePart(first.Sequence), safePart(last.Sequence), hex.EncodeToString(digest.Sum(nil)[:8])}
	if first.Shard == "" { // in Lambda
		parts = parts[1:]
	}
	return f.folder + "/" + strings.Join(parts, "_") + ".jsonl.gz"
}

// safePart returns the first 64 bytes of text, with "-" for each character but ASCII letters and digits; "-"
// for "". The result cannot lead to another folder.
func safePart(text string) string {
	text = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			return c
		}
		return '-'
	}, text[:min(len(text), longestPart)])
	if text == "" {
		return "-"
	}
	return text
}

// compressors are kept, because each takes a megabyte.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// compressed returns the lines as JSON, one a line, compressed with gzip. The same lines give the
// same bytes.
func (f *file) compressed() ([]byte, error) {
	var out bytes.Buffer
	z := compressors.Get().(*gzip.Writer) // without a time: the same lines are the same bytes
	defer compressors.Put(z)
	z.Reset(&out)
	encoder := json.NewEncoder(z)
	encoder.SetEscapeHTML(false)
	for _, line := range f.lines {
		if err := encoder.Encode(line); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
