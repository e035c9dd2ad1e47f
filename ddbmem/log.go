package ddbmem

// Entry is one executed request of the log.
type Entry struct {
	// Seq numbers the requests of a DB from 1.
	Seq int64
	// Operation is the API call, such as "UpdateItem".
	Operation string
	// Table is the table, or the first one of a batch or transaction.
	Table string
	// Body is the JSON of the request. Do not change it.
	Body []byte
	// Error is the code of the error answered, "" for success.
	Error string
	// ReadUnits and WriteUnits are the capacity units consumed.
	ReadUnits, WriteUnits float64
}

// Log returns a copy of the log: the requests executed so far, in the order in which they ended. It is empty
// unless New got WithLog. A request that a fault kept from executing is not in it.
func (db *DB) Log() []Entry {
	db.logMu.Lock()
	defer db.logMu.Unlock()
	return append([]Entry(nil), db.log...)
}

// ResetLog empties the log.
func (db *DB) ResetLog() {
	db.logMu.Lock()
	defer db.logMu.Unlock()
	db.log = nil
}

// addLog appends an executed request to the log. failure is the answered error, nil for success.
func (db *DB) addLog(c *call, failure *Error) {
	read, write := c.use.totals()
	e := Entry{
		Seq: c.seq, Operation: c.operation, Table: firstTable(c.body), Body: c.body,
		ReadUnits: read.units(), WriteUnits: write.units(),
	}
	if failure != nil {
		e.Error = failure.Code
	}
	db.logMu.Lock()
	defer db.logMu.Unlock()
	db.log = append(db.log, e)
}
