package manifest

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

// Whatever a limit says, a plan shows that it differs: else an apply would leave it as it is, or
// lose it.
func TestEveryFieldOfALimitDiffers(t *testing.T) {
	var none dynalimit.Limit
	for i := range reflect.TypeFor[dynalimit.Limit]().NumField() {
		name, l := reflect.TypeFor[dynalimit.Limit]().Field(i).Name, none
		if name == "Name" {
			continue // by which limits are matched
		}
		switch field := reflect.ValueOf(&l).Elem().Field(i); field.Kind() { //nolint:exhaustive // what a limit has
		case reflect.Int64:
			field.SetInt(90_000_000_000)
		case reflect.String:
			field.SetString("day")
		case reflect.Bool:
			field.SetBool(true)
		default:
			require.Fail(t, "a field of another kind", name)
		}
		assert.NotEmpty(t, limitDifference("x", none, l), name)
	}
}
