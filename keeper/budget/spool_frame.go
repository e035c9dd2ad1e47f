package budget

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
)

// A record is one line of the spool: the checksum of its JSON in eight hexadecimal digits, a
// space, and the JSON.
const sumDigits = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordStart is the beginning of the JSON of every spooled record. It never occurs inside one.
var recordStart = []byte(`{"org_id":"`)

// spoolLine is a line of the spool, or a part of a damaged line.
type spoolLine struct {
	text  []byte // the raw text
	entry SpooledUsage
	bad   error // the reason that it is unreadable; entry is then empty
}

// encodeRecord returns a record as a line of the spool: its checksum, its JSON and a newline.
func encodeRecord(entry SpooledUsage) ([]byte, error) {
	text, err := json.Marshal(entry)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(text, castagnoli), text), nil
}

// splitSpool decodes the lines of file, raw text of the spool, in order; it skips empty ones. From a damaged
// line it takes the complete records and returns each other piece with bad set.
func splitSpool(file []byte) []spoolLine {
	var lines []spoolLine
	for line := range bytes.Lines(file) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if entry, n, err := readRecord(line, 0); err == nil && n == len(line) {
			lines = append(lines, spoolLine{text: line, entry: entry})
			continue
		}
		lines = append(lines, salvageRecords(line)...)
	}
	return lines
}

// salvageRecords splits a damaged line, in order, into the complete records within it and the pieces between
// them. Those pieces have the raw text and bad set.
func salvageRecords(line []byte) []spoolLine {
	var found []spoolLine
	damaged := func(from, to int) {
		if piece := bytes.TrimSpace(line[from:to]); len(piece) > 0 {
			found = append(found, spoolLine{text: piece, bad: fmt.Errorf("%w: %d bytes are no whole record", errDamaged, len(piece))})
		}
	}
	rest, at := 0, 0
	for at < len(line) {
		next := bytes.Index(line[at:], recordStart)
		if next < 0 {
			break
		}
		start := at + next - sumDigits - 1
		at += next + 1
		if start < rest {
			continue
		}
		entry, end, err := readRecord(line, start)
		if err != nil {
			continue
		}
		damaged(rest, start)
		found = append(found, spoolLine{text: line[start:end], entry: entry})
		rest, at = end, end
	}
	damaged(rest, len(line))
	return found
}

// readRecord decodes the record that begins with its checksum at offset at of line, and returns it with the
// offset of its end. If it is incomplete or the checksum is wrong, it returns an error.
func readRecord(line []byte, at int) (entry SpooledUsage, end int, err error) {
	start := at + sumDigits + 1
	if start > len(line) || line[start-1] != ' ' || !bytes.HasPrefix(line[start:], recordStart) {
		return entry, at, errDamaged
	}
	sum, err := strconv.ParseUint(string(line[at:at+sumDigits]), 16, 32)
	if err != nil {
		return entry, at, errDamaged
	}
	decoder := json.NewDecoder(bytes.NewReader(line[start:]))
	if err := decoder.Decode(&entry); err != nil {
		return SpooledUsage{}, at, err
	}
	end = start + int(decoder.InputOffset())
	if uint32(sum) != crc32.Checksum(line[start:end], castagnoli) {
		return SpooledUsage{}, at, errDamaged
	}
	return entry, end, nil
}

var errDamaged = errors.New("budget: damaged line in the spool")
