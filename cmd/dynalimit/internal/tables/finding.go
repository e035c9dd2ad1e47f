package tables

import (
	"fmt"
	"strings"
)

// Status is the result of a check.
type Status string

const (
	// OK is the status without a fault.
	OK Status = "ok"
	// Hint is the status of a possible improvement.
	Hint Status = "hint"
	// Warning means a possible future fault.
	Warning Status = "warning"
	// Wrong means that calls fail or behave wrongly.
	Wrong Status = "wrong"
	// Unchecked means that the check was impossible.
	Unchecked Status = "unchecked"
)

// Finding is the finding of a check. It is a plain value.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Found is the observation, or the reason why it is missing.
	Found string `json:"found"`
	// Means is the consequence; empty without a fault.
	Means string `json:"means,omitempty"`
	// Fix is a command that repairs the fault, or empty.
	Fix string `json:"fix,omitempty"`
}

// Fine returns a finding with the status OK, and with found, formatted as by fmt.Sprintf, as its text.
func Fine(found string, args ...any) Finding {
	return Finding{Status: OK, Found: fmt.Sprintf(found, args...)}
}

// CannotCheck returns a finding with the status Unchecked, and with why, formatted as by fmt.Sprintf, as its
// reason.
func CannotCheck(why string, args ...any) Finding {
	return Finding{Status: Unchecked, Found: fmt.Sprintf(why, args...)}
}

// Flags are the flags that direct a command at a table.
type Flags struct {
	// Ours are the flags of dynalimit commands, AWS those of AWS commands, each with a leading
	// space.
	Ours, AWS string
	// Budget are the flags of 'table create' for the tables of budgets.
	Budget string
	// Table is the value of --table, and Region the region of the requests.
	Table, Region string
}

// Command returns the text of the command "dynalimit WORDS" with the flags that reach the table. It runs
// nothing.
func (f Flags) Command(words string) string { return "dynalimit " + words + f.Ours }

// OfAWS returns the text of an AWS CLI command: "aws", the formatted text, and the flags that reach the table's
// endpoint. It runs nothing.
func (f Flags) OfAWS(format string, args ...any) string {
	return "aws " + fmt.Sprintf(format, args...) + f.AWS
}

// exportZaeCommand returns the dynalimit command that exports the table, one of zae-limiter, as a manifest. It
// runs nothing.
func (f Flags) exportZaeCommand() string {
	return "dynalimit manifest export --from-zae " + f.Table + strings.ReplaceAll(f.Ours, " --table "+f.Table, "")
}

// OtherTableCommand returns the dynalimit command that creates a table under the present name with "-limits"
// appended, because the present one belongs to another program. It runs nothing.
func (f Flags) OtherTableCommand() string {
	return "dynalimit table create --table " + f.Table + "-limits" + strings.ReplaceAll(f.Ours, " --table "+f.Table, "")
}
