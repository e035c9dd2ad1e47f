package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// TestEveryCallOfTheLibraryHasACommand: the advice names commands that there are.
func TestEveryCallOfTheLibraryHasACommand(t *testing.T) {
	source, err := os.ReadFile("../../fault/fix.go")
	require.NoError(t, err)
	calls := regexp.MustCompile(`Fix = "(.+)"`).FindAllStringSubmatch(string(source), -1)
	assert.Len(t, calls, len(commandOf))
	for _, call := range calls {
		command, _, _ := strings.Cut(strings.TrimPrefix(string(commandOf[fault.Fix(call[1])]), "'dynalimit "), "'")
		command, _, _ = strings.Cut(command, " MODEL")
		assert.Contains(t, leaves(t), command, call[1])
	}
}

// TestAdviceIsForTheCommandLine: the texts of typed errors name flags and commands, also inside of
// others.
func TestAdviceIsForTheCommandLine(t *testing.T) {
	gone := errors.New("dynalimit: not found: entity \"a\" has no record; make one")
	for _, test := range []struct {
		err  error
		text string
	}{
		{&fault.ValidationError{Field: "entity.ParentID", Reason: "is deleted; finish that", Package: "dynalimit", Fix: fault.DeleteEntity}, "invalid --parent: is deleted; finish that with 'dynalimit entity delete'"},
		{&fault.ValidationError{Field: "config.limits[3].Burst", Reason: "is 0", Package: "dynalimit"}, "invalid burst of a limit: is 0"},
		{&fault.ValidationError{Field: "amounts[rpm]", Reason: "is 0", Package: "dynalimit"}, "dynalimit: invalid amounts[rpm]: is 0"},
		{&fault.TableError{Table: "t", Reason: "create it", Fix: fault.CreateTable}, `dynalimit: table "t": create it with 'dynalimit table create'`},
		{&fault.NamespaceError{Namespace: "n", Reason: "register it", Fix: fault.RegisterNamespace}, `dynalimit: namespace "n" is not registered: register it with 'dynalimit namespace register'`},
		{
			errors.Join(fmt.Errorf("show: %w; list them", &problem.Fixable{Err: gone, Fix: fault.CreateEntity}), gone),
			"show: dynalimit: not found: entity \"a\" has no record; make one with 'dynalimit entity create'; list them\n" + gone.Error(),
		},
		{
			fmt.Errorf("read: %w", &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "GetItem", Err: &smithy.GenericAPIError{Code: "Bad", Message: "no"}}),
			"read: Bad: no",
		},
	} {
		assert.Equal(t, test.text, textOf(test.err))
	}
}
