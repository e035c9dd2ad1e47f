package testworld

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
)

// RequireInvalid checks that err refuses a field, with a reason, and names it.
func RequireInvalid(t testing.TB, err error, field string, message ...any) *fault.ValidationError {
	t.Helper()
	var invalid *fault.ValidationError
	require.ErrorAs(t, err, &invalid, message...)
	assert.Equal(t, field, invalid.Field, message...)
	assert.NotEmpty(t, invalid.Reason, message...)
	assert.Contains(t, err.Error(), field, message...)
	return invalid
}
