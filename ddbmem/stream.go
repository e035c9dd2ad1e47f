package ddbmem

import "time"

// stream is the change log of one table.
type stream struct{ view string }

func (s *stream) record(time.Time, *change) {}

func (s *stream) disable(time.Time) {}

func (db *DB) openStream(t *table, view string) { t.stream = &stream{view: view} }

func (s *stream) appendToTable(b []byte) []byte { return b }
