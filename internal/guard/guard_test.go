package guard

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errOfUser = errors.New("said the user's code")

// endings are ways in which code does not return.
var endings = map[string]func() error{
	"panic":          func() error { panic("boom") },
	"panic of error": func() error { panic(errOfUser) },
	"panic of nil":   func() error { panic(nil) }, // runtime.PanicNilError
	"Goexit":         func() error { runtime.Goexit(); return nil },
}

func TestCallThatDoesNotReturnIsAnError(t *testing.T) {
	for name, f := range endings {
		err := Apart(f)
		ended, ok := errors.AsType[*Ended](err)
		require.True(t, ok, name)
		assert.NotEmpty(t, ended.Stack, name)
		assert.Equal(t, name == "Goexit", ended.Cause == nil, name)
		assert.Equal(t, name == "panic of error", errors.Is(err, errOfUser), name)

		group, ctx := WithContext(t.Context())
		group.Go(f)
		group.Go(func() error { <-ctx.Done(); return nil })
		require.ErrorAs(t, group.Wait(), new(*Ended), name)
	}
}

func TestCallThatReturnsIsItself(t *testing.T) {
	assert.NoError(t, Apart(func() error { return nil }))
	assert.Equal(t, errOfUser, Apart(func() error { return errOfUser }))
	Call(func() {}, func(e *Ended) { t.Error(e) })
	var group Group
	group.SetLimit(1)
	group.Go(func() error { return nil })
	group.Go(func() error { return errOfUser })
	assert.Equal(t, errOfUser, group.Wait())
	_, ctx := WithContext(t.Context())
	assert.NoError(t, ctx.Err())
	empty, ctx := WithContext(t.Context())
	assert.NoError(t, empty.Wait())
	assert.ErrorIs(t, ctx.Err(), context.Canceled)
}

// TestGroupSaysWhyItFailed: a call that fails ends the others, and their errors come while it ends.
func TestGroupSaysWhyItFailed(t *testing.T) {
	for range 2000 {
		group, ctx := WithContext(t.Context())
		for range 4 {
			group.Go(func() error { <-ctx.Done(); return ctx.Err() })
		}
		group.Go(func() error { return errOfUser })
		require.Equal(t, errOfUser, group.Wait())
	}
}
