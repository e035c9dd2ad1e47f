package tables

import (
	"fmt"
	"strings"
)

// Status is how a check ended.
type Status string

const (
	// OK means that all is well.
	OK Status = "ok"
	// Hint means that all is well, and something could be better.
	Hint Status = "hint"
	// Warning means that it works now, and may not always.
	Warning Status = "warning"
	// Wrong means that calls fail, or do what nobody wants.
	Wrong Status = "wrong"
	// Unchecked means that it could not be found out.
	Unchecked Status = "unchecked"
)

// Finding is what a check found. It is a plain value.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Found is what was found, or why nothing could be.
	Found string `json:"found"`
	// Means says what follows from it; empty where all is well.
	Means string `json:"means,omitempty"`
	// Fix is a command that makes it right; empty where there is none.
	Fix string `json:"fix,omitempty"`
}

// Fine is a finding that all is well.
func Fine(found string, args ...any) Finding {
	return Finding{Status: OK, Found: fmt.Sprintf(found, args...)}
}

// Unseen is a finding that something could not be found out.
func Unseen(why string, args ...any) Finding {
	return Finding{Status: Unchecked, Found: fmt.Sprintf(why, args...)}
}

// Flags are what has to follow a command to be about a table.
type Flags struct {
	// Ours follows a command of dynalimit, and AWS one of AWS's, each with a space before it.
	Ours, AWS string
	// Budget follows 'table create' for the tables of budgets.
	Budget string
	// Table is that of --table, and Region the one that is asked.
	Table, Region string
}

// Command is a command of dynalimit about the table.
func (f Flags) Command(words string) string { return "dynalimit " + words + f.Ours }

// OfAWS is a command of AWS's command line about the table.
func (f Flags) OfAWS(format string, args ...any) string {
	return "aws " + fmt.Sprintf(format, args...) + f.AWS
}

// exportZae writes what a table of zae-limiter says into a manifest.
func (f Flags) exportZae() string {
	return "dynalimit manifest export --from-zae " + f.Table + strings.ReplaceAll(f.Ours, " --table "+f.Table, "")
}

// OtherTable makes a table under another name.
func (f Flags) OtherTable() string {
	return "dynalimit table create --table " + f.Table + "-limits" + strings.ReplaceAll(f.Ours, " --table "+f.Table, "")
}
