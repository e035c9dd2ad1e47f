package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// TestTableTranscript plays the life of the tables: made, looked at, deleted.
func TestTableTranscript(t *testing.T) {
	t.Parallel()
	s := newShell(t).withBackups()
	s.golden("table.txt", [][]string{
		{"table", "status"},
		{"table", "status", "--json"},
		{"table", "create", "--dry-run"},
		{"table", "create", "--tags", "aws:team=llm"},
		{"table", "create", "--table", "a"},
		{"table", "create", "--existing"},
		{"table", "create", "--no-recovery", "--no-protection", "--no-stream"},
		{"table", "status"},
		{"table", "create", "--tags", "team=llm,stage=prod"},
		{"table", "create"},
		{"table", "create", "--json"},
		{"table", "status"},
		{"table", "status", "--json"},
		{"table", "status", "limits"},
		{"table", "create", "--budget", "--control", "limits-control", "--usage", "limits-usage", "--json"},
		{"table", "create", "--budget", "--control", "same", "--usage", "same"},
		{"table", "create", "--kms-key", "alias/limits", "--table", "encrypted"},
		{"system", "set", "rpm=100"},
		{"table", "delete"},
		{"table", "delete", "--remove-protection"},
		{"table", "delete", "--dry-run"},
		{"table", "delete", "--dry-run", "--final-backup", "the-end", "--json"},
		{"table", "delete", "--final-backup", "x"},
		{"table", "delete", "--remove-protection", "--final-backup", "the-end", "--yes"},
		{"table", "delete", "--yes"},
		{"table", "create", "--no-recovery"},
		{"table", "delete", "--remove-protection", "--yes", "--json"},
	})
}

// TestTableCreateCompletesWhatIsHalfMade: whatever request failed, the next run does what
// is left, and the one after it nothing.
func TestTableCreateCompletesWhatIsHalfMade(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"CreateTable", "PutItem", "UpdateTimeToLive", "UpdateContinuousBackups"} {
		t.Run(operation, func(t *testing.T) {
			s := newShell(t)
			s.db.SetFaults(denying(operation))
			code, _, stderr := s.run("table", "create")
			require.Equal(t, exitFailed, code)
			require.Contains(t, stderr, operation)
			s.db.SetFaults(nil)
			require.NotContains(t, s.must("table", "create"), "as it should be")
			require.Contains(t, s.must("table", "create"), "It is as it should be.")
			out := s.must("table", "status")
			require.Contains(t, out, "ACTIVE, ready")
			require.NotContains(t, out, "!", "nothing is left to remark")
		})
	}
}

// TestTableCreateOnAnEngineThatKnowsLess: what an engine for development does not know is
// said, and fails nothing.
func TestTableCreateOnAnEngineThatKnowsLess(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if strings.HasSuffix(r.Operation, "ContinuousBackups") {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "UnknownOperationException", Message: "An unknown operation was requested."}}
		}
		return ddbmem.Fault{}
	})
	out := s.must("table", "create")
	assert.Contains(t, out, "! point-in-time recovery, 35 days back: this engine does not know it")
	assert.Contains(t, out, "It can be used.")
	assert.Contains(t, s.must("table", "status"), "recovery    unknown")
}

// TestTableOfCloudFormation: a table that infrastructure code made says nothing of its
// layout; create writes that nothing of an older one is in it, as long as it is empty.
func TestTableOfCloudFormation(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	_, err := s.db.Client().CreateTable(t.Context(), s.repository().TableInput())
	require.NoError(t, err)
	code, stdout, _ := s.run("table", "status")
	assert.Equal(t, exitNo, code)
	assert.Contains(t, stdout, "! layout: there is no record of its version; dynalimit did not make the table, or not to the end\n    $ dynalimit table create --endpoint "+s.endpoint+"\n")
	s.must("table", "create")
	var status tablesStatus
	unmarshal(t, s.must("table", "status", "--json"), &status)
	assert.True(t, status.Ready)
	assert.True(t, status.Tables[0].CompositeOnly)

	other := newShell(t)
	_, err = other.db.Client().CreateTable(t.Context(), other.repository().TableInput())
	require.NoError(t, err)
	require.NoError(t, admin.New(other.repository()).Limits.Set(t.Context(), admin.Scope{Everyone: true}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 1)}))
	other.must("table", "create")
	assert.Contains(t, other.must("table", "status"), "! older items: the table was not migrated", "it may hold items of an older layout")
}

func unmarshal(t *testing.T, text string, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), into), text)
}

// denying refuses one operation for want of a permission.
func denying(operation string) ddbmem.FaultFunc {
	return func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == operation {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "not authorized to perform: dynamodb:" + operation}}
		}
		return ddbmem.Fault{}
	}
}

// typist answers questions one after the other, and does something before each answer.
type typist struct {
	answers []string
	before  func(question int)
	asked   int
}

func (a *typist) Read(p []byte) (int, error) {
	if a.asked == len(a.answers) {
		return 0, io.EOF
	}
	if a.before != nil {
		a.before(a.asked)
	}
	n := copy(p, a.answers[a.asked]+"\n")
	a.asked++
	return n, nil
}

// TestTableDeleteTellsWhatIsGone: when another table could not be deleted after it.
func TestTableDeleteTellsWhatIsGone(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.must("table", "create", "--budget", "--no-protection")
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "DeleteTable" && strings.Contains(string(r.Body), "control") {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "no"}}
		}
		return ddbmem.Fault{}
	})
	code, stdout, stderr := s.run("table", "delete", "--budget", "--yes")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "control")
	assert.Equal(t, "limits is deleted.\ncontrol is not deleted.\nusage is not deleted.\n", stdout)
}

// TestTableDeleteDeletesTheTableThatWasConfirmed: not one that was made anew under its name
// while it was asked about.
func TestTableDeleteDeletesTheTableThatWasConfirmed(t *testing.T) {
	t.Parallel()
	s := newTable(t)
	another := func(int) {
		_, err := s.db.Client().DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("limits")})
		require.NoError(t, err)
		require.NoError(t, s.repository().CreateTable(t.Context()))
	}
	var out, errs bytes.Buffer
	to := &term.Output{Writer: &out, Patience: time.Hour, In: &typist{answers: []string{"limits"}, before: another}}
	assert.Equal(t, exitFailed, run(t.Context(), []string{"--endpoint", s.endpoint, "table", "delete"}, to, &errs))
	assert.Contains(t, errs.String(), "limits was replaced by another table of the same name")
	assert.Contains(t, s.must("table", "status"), "ACTIVE, ready")
}
