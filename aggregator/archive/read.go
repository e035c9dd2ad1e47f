package archive

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/dynalimit/dynalimit/internal/problem"
)

// longestLine bounds a line that is read: an item has at most 400 KB, and its JSON may take
// several times as much.
const longestLine = 16 << 20

// Read yields the lines of a file, or of several concatenated ones. It yields an error for an
// invalid line, with the line's number, and reads on. At a cut, a damage,
// or a line longer than 16 MiB, it yields a last error. It holds
// one line in memory at a time. Range over it only once, because it reads r.
func Read(r io.Reader) iter.Seq2[Line, error] {
	if problem.IsNil(r) {
		return problem.ErrorList[Line](invalid("reader", "is nil; give an open file"))
	}
	return func(yield func(Line, error) bool) {
		z, err := gzip.NewReader(r)
		if err != nil {
			yield(Line{}, fmt.Errorf("archive: the file is not in gzip format: %w; read a file that an archive wrote", err))
			return
		}
		scanner := bufio.NewScanner(z)
		scanner.Buffer(nil, longestLine)
		for n := 1; scanner.Scan(); n++ {
			if !yield(decodeLine(scanner.Bytes(), n)) {
				return
			}
		}
		if err := scanner.Err(); err != nil {
			yield(Line{}, fmt.Errorf("archive: the file ends early: %w", err))
		}
	}
}

// decodeLine decodes the n-th line of a file from JSON. Its error names n; a line without a kind fails too.
func decodeLine(text []byte, n int) (line Line, err error) {
	err = json.Unmarshal(text, &line)
	if err == nil && line.Kind == "" {
		err = errors.New("the field \"kind\" is missing; read a file that an archive wrote")
	}
	if err != nil {
		return Line{}, fmt.Errorf("archive: line %d: %w", n, err)
	}
	return line, nil
}
