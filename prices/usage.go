package prices

import (
	"time"

	"github.com/dynalimit/dynalimit/internal/problem"
)

const (
	maxStatus = 32 // bytes
	maxTags   = 4
)

// Usage is the usage of one call.
type Usage struct {
	RequestID string            `json:"request_id"`         // canonical lower-case UUID; a record is counted once under it
	Label     string            `json:"model_label"`        // one that the organisation uses or has used
	Model     string            `json:"model_id,omitempty"` // that was called: one that the label has, or had in the last two days. Defaults to the label's
	Tokens    Tokens            `json:"tokens"`             // as the provider reports them
	Status    string            `json:"status,omitempty"`   // at most 32 bytes. Defaults to OK
	Time      time.Time         `json:"timestamp"`          // of the call, 24 h ago to 300 s ahead; the zero time is now
	Tags      map[string]string `json:"tags,omitempty"`     // at most 4, of few distinct values: cost is counted per value and day
}

// Validate returns a *fault.ValidationError for a record that a keeper would refuse whatever its configuration.
// A caller may call it before the call that the record describes.
func (u Usage) Validate() error {
	for _, field := range []struct{ name, reason string }{
		{"request_id", problem.CheckUUID(u.RequestID)},
		{"model_label", problem.CheckLabel(u.Label)},
		{"status", problem.CheckText(u.Status, maxStatus)},
		{"model_id", problem.CheckText(u.Model, maxName)},
	} {
		if field.reason != "" {
			return invalid(field.name, "%s", field.reason)
		}
	}
	if len(u.Tags) > maxTags {
		return invalid("tags", "%d are more than %d", len(u.Tags), maxTags)
	}
	for name, value := range u.Tags {
		if problem.CheckName(name) != "" || problem.CheckName(value) != "" {
			return invalid("tags."+name, "%q: names and values are 1 to 64 of A-Z a-z 0-9 . _ -", value)
		}
	}
	return u.Tokens.Validate()
}
