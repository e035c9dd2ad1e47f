package admin

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit/internal/problem"
)

var (
	// ErrNotFound is returned for an entity record that does not exist.
	ErrNotFound = problem.ErrNotFound
	// ErrExists is returned for an entity that has a record, and for a namespace that is
	// registered.
	ErrExists = problem.ErrExists
	// ErrConflict matches the error of a change that was planned on an outdated
	// version: *ConflictError[ScopedConfig], *ConflictError[Entity], *ConflictError[Raise].
	ErrConflict = errors.New("dynalimit: changed meanwhile")
)

// ConflictError means that another writer changed a source, or an entity,
// after it was read, or that a limit is raised further or for longer already. Nothing was
// written. Read it again, or decide from Stored.
type ConflictError[T ScopedConfig | Entity | Raise] struct {
	// Yours is the intended value; its Version is the one that was read.
	Yours T
	// Stored is the stored value; the Version of a missing source is 0.
	Stored T
}

// Error names the source, the raise or the entity, with its stored and its intended value; of a source it shows
// the versions alone. It also names the next step.
func (e *ConflictError[T]) Error() string {
	if config, ok := any(e).(*ConflictError[ScopedConfig]); ok {
		return fmt.Sprintf("dynalimit: the configuration of %s is at version %d, not %d: somebody changed it; read it again and repeat your change on it",
			config.Stored.Scope, config.Stored.Config.Version, config.Yours.Config.Version)
	}
	if raise, ok := any(e).(*ConflictError[Raise]); ok {
		return fmt.Sprintf("dynalimit: %s, and yours is %s: raise it by at least as much and as long, or replace the stored raise", raise.Stored, raise.Yours)
	}
	yours, stored := any(e.Yours).(Entity), any(e.Stored).(Entity)
	return fmt.Sprintf("dynalimit: entity %q was changed meanwhile: stored is %s, yours is %s; read it again and repeat your change on it", stored.ID, stored.asJSON(), yours.asJSON())
}

// Is matches ErrConflict.
func (e *ConflictError[T]) Is(target error) bool { return target == ErrConflict }

// asJSON returns the entity's record as JSON, for errors, without its id and creation time. It returns the
// version alone, as text, if the metadata is not JSON.
func (e Entity) asJSON() string {
	text, err := json.Marshal(struct {
		Version  int64           `json:"version"`
		Name     string          `json:"name,omitempty"`
		Parent   string          `json:"parent,omitempty"`
		Cascade  bool            `json:"cascade,omitempty"`
		Detached bool            `json:"detached,omitempty"`
		Plan     string          `json:"plan,omitempty"`
		Managed  string          `json:"managed_by,omitempty"`
		Metadata json.RawMessage `json:"metadata,omitempty"`
	}{e.Version, e.Name, e.ParentID, e.Cascade, e.Detached, e.Plan, e.ManagedBy, e.Metadata})
	if err != nil {
		return fmt.Sprintf("version %d", e.Version)
	}
	return string(text)
}
