package archive

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func compressed(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.Bytes()
}

// TestReadSaysWhatIsWrong: a line that is none does not hide those after it, and a file that
// is cut is told from one that ends.
func TestReadSaysWhatIsWrong(t *testing.T) {
	read := func(data []byte) (ids string, errs []string) {
		for line, err := range Read(bytes.NewReader(data)) {
			if err != nil {
				errs = append(errs, err.Error())
				continue
			}
			ids += line.EventID
		}
		return ids, errs
	}
	whole := compressed(t, `{"kind":"audit","event_id":"a"}`+"\nnonsense\n"+`{"kind":"audit","event_id":"b","new":[1]}`+"\n")
	ids, errs := read(whole)
	assert.Equal(t, "ab", ids)
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0], "line 2")

	ids, errs = read(append(compressed(t, `{"kind":"audit","event_id":"a"}`), compressed(t, "\n"+`{"kind":"audit","event_id":"b"}`)...))
	assert.Equal(t, "ab", ids, "files that follow each other")
	assert.Empty(t, errs)

	none := compressed(t, "null\n{}\n"+`{"event_id":"d"}`+"\n[]\n\n"+`{"kind":"audit","event_id":"c"}`)
	ids, errs = read(none)
	assert.Equal(t, "c", ids)
	assert.Len(t, errs, 5, "lines that are none")

	long := compressed(t, strings.Repeat(" ", longestLine+1)+"\n{}")
	_, errs = read(long)
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0], "too long")
	_, errs = read(whole[:len(whole)-3])
	assert.Contains(t, errs[len(errs)-1], "ends early")
	_, errs = read([]byte("nothing"))
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0], "not in gzip format")

	for range Read(bytes.NewReader(whole)) { // who has seen enough leaves
		break
	}
}
