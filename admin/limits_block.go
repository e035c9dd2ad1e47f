package admin

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// SetBlocked blocks a source, or ends its block, also one with exceptions. A block ends LimitConfig.Admit;
// nothing else of the source changes. A blocked source admits no call, not even of a more specific source
// with limits of its own: Acquire fails with ErrBlocked. It is in force in this process at once, in others
// within their ConfigTTL. Blocks of other sources stay.
func (l Limits) SetBlocked(ctx context.Context, at Scope, blocked bool) error {
	return l.editSource(ctx, "set blocked", at, marksEdit(func(next *schema.ConfigItem) error {
		next.Blocked, next.BlockedExcept, next.Admit = blocked, false, next.Admit && !blocked
		return nil
	}))
}

// SetBlockedExcept blocks a source but for calls that a more specific source admits (SetAdmit). It
// replaces a block without exceptions of the source, and its admission; SetBlocked ends it. It fails
// with a *fault.TableError on a table that needs Admin.Upgrade first, and with a *ValidationError on a
// Compatible repository.
func (l Limits) SetBlockedExcept(ctx context.Context, at Scope) error {
	return setExceptions(ctx, l, at, LimitConfig{BlockedExcept: true}, func(next *schema.ConfigItem) error {
		next.Blocked, next.BlockedExcept, next.Admit = false, true, false
		return nil
	})
}

// SetAdmit makes a source lift the blocks with exceptions of less specific sources (SetBlockedExcept), or no
// longer lift them. The rest of the source stays. It refuses a source that is blocked itself, and the system.
// It fails as SetBlockedExcept does.
func (l Limits) SetAdmit(ctx context.Context, at Scope, admit bool) error {
	return setExceptions(ctx, l, at, LimitConfig{Admit: admit}, func(next *schema.ConfigItem) error {
		if admit && (next.Blocked || next.BlockedExcept) {
			return invalid("admit", "is set at %s, which is blocked; end that block first", at)
		}
		next.Admit = admit
		return nil
	})
}

// setExceptions applies change to the blocks and the admission of a source. The argument marks has the marks
// that change sets. It first validates them and raises kinds_min, so that clients obey them.
func setExceptions(ctx context.Context, l Limits, at Scope, marks LimitConfig, change func(*schema.ConfigItem) error) error {
	if marks.hasSettings() {
		checked := ScopedConfig{Scope: at, Config: marks}
		if _, err := checked.checkFor(l.d, ""); err != nil {
			return err
		}
		if err := l.d.checkChange(ctx); err != nil {
			return err
		}
		if err := l.d.raiseKinds(ctx, checked); err != nil {
			return err
		}
	}
	return l.editSource(ctx, "set blocked", at, marksEdit(change))
}

// marksEdit returns an edit that applies change to a copy of the stored configuration, an empty one if nothing
// is stored. It removes a source that becomes empty. An error of change ends the edit.
func marksEdit(change func(*schema.ConfigItem) error) edit {
	return func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		next := schema.ConfigItem{}
		if old != nil {
			next = *old
		}
		if err := change(&next); err != nil {
			return nil, err
		}
		return next.OrNone(), nil
	}
}
