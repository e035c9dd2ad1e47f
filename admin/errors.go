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
	// ErrConflict matches the error of a change that was planned on what is stored no
	// more: *ConfigConflictError, *EntityConflictError.
	ErrConflict = errors.New("dynalimit: changed meanwhile")
)

// ConfigConflictError says that a level of configuration was changed by somebody else
// since it was read. Nothing was written.
type ConfigConflictError struct {
	// Scope is the level.
	Scope Scope
	// Yours is what was to be stored; its Version is the one that was read.
	Yours LimitConfig
	// Stored is what is stored now; its Version is 0 when nothing is.
	Stored LimitConfig
}

// Error names the level and both versions.
func (e *ConfigConflictError) Error() string {
	return fmt.Sprintf("dynalimit: the configuration of %s is at version %d, not %d: somebody changed it; read it again with GetConfig, and decide anew", e.Scope, e.Stored.Version, e.Yours.Version)
}

// Is matches ErrConflict.
func (e *ConfigConflictError) Is(target error) bool { return target == ErrConflict }

// EntityConflictError says that an entity was changed since it was read: Entities.Update
// changed nothing. Read it again, or decide from Stored.
type EntityConflictError struct {
	// Yours is what was to be written.
	Yours Entity
	// Stored is what is stored.
	Stored Entity
}

// Error shows what is stored and what was to be written instead.
func (e *EntityConflictError) Error() string {
	return fmt.Sprintf("dynalimit: entity %q was changed meanwhile: stored is %s, yours is %s; read it again and decide anew",
		e.Stored.ID, e.Stored.text(), e.Yours.text())
}

// Is matches ErrConflict.
func (e *EntityConflictError) Is(target error) bool { return target == ErrConflict }

// text shows the entity in errors.
func (e Entity) text() string {
	text, err := json.Marshal(struct {
		Version  int64           `json:"version"`
		Name     string          `json:"name,omitempty"`
		Parent   string          `json:"parent,omitempty"`
		Cascade  bool            `json:"cascade,omitempty"`
		Plan     string          `json:"plan,omitempty"`
		Managed  string          `json:"managed_by,omitempty"`
		Metadata json.RawMessage `json:"metadata,omitempty"`
	}{e.Version, e.Name, e.ParentID, e.Cascade, e.Plan, e.ManagedBy, e.Metadata})
	if err != nil {
		return fmt.Sprintf("version %d", e.Version)
	}
	return string(text)
}
