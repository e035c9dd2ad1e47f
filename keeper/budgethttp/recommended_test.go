package budgethttp

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// Whatever differs in a recommendation is answered anew, and nothing else is.
func TestAnswersAreKeptWhileTheyAreTheSame(t *testing.T) {
	first := func() *budget.Recommendation {
		return &budget.Recommendation{Label: "premium", ResetAt: time.Unix(1, 0), Labels: []prices.LabelStatus{{Label: "premium"}}}
	}
	known := newRecommended()
	out := known.responseFor("o", "a", *first())
	assert.Same(t, out, known.responseFor("o", "a", *first()))
	assert.NotSame(t, out, known.responseFor("o", "b", *first()))

	fields := 0
	for _, part := range []func(*budget.Recommendation) reflect.Value{
		func(r *budget.Recommendation) reflect.Value { return reflect.ValueOf(r).Elem() },
		func(r *budget.Recommendation) reflect.Value { return reflect.ValueOf(&r.Price).Elem() },
		func(r *budget.Recommendation) reflect.Value { return reflect.ValueOf(&r.Labels[0]).Elem() },
	} {
		for i := range part(first()).NumField() {
			other := first()
			if changed(part(other).Field(i)) {
				fields++
				assert.False(t, sameResponse(*first(), *other), part(other).Type().Field(i).Name)
			}
		}
	}
	assert.Equal(t, 19, fields)
}

// changed gives a field another value; false for one that has fields of its own.
func changed(field reflect.Value) bool {
	switch v := field.Addr().Interface().(type) {
	case *time.Time:
		*v = v.Add(time.Second)
		return true
	}
	switch field.Kind() {
	case reflect.String:
		field.SetString("other")
	case reflect.Bool:
		field.SetBool(!field.Bool())
	case reflect.Float64:
		field.SetFloat(7)
	case reflect.Int64:
		field.SetInt(7)
	default:
		return false
	}
	return true
}

func TestIDsOfRequests(t *testing.T) {
	long := "a123456789012345678901234567890123456789012345678901234567890123"
	for id, good := range map[string]bool{
		"": false, "a": true, "Z9": true, "0.-_": true, ".a": false, "-a": false, "_": false, "a b": false, "a\n": false, "é": false,
		"a/": false, "a:": false, "a@": false, "a[": false, "a`": false, "a{": false, long: true, long + "4": false,
	} {
		assert.Equal(t, good, isRequestID(id), id)
	}
}
