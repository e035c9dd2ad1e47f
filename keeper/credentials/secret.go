package credentials

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// redacted replaces the text of a secret.
const redacted = "[redacted]"

// Secret is a text that is redacted wherever it is printed, logged or encoded, also as a field
// of another value. Reveal returns the text. The zero Secret is empty. Compare secrets with
// Equal, never with ==.
type Secret struct {
	// text is a pointer, because fmt prints the fields of an unexported field without asking
	// its type. For a pointer to a string fmt prints the address; for a pointer to bytes or a
	// struct it might print the contents.
	text *string
}

// NewSecret makes a secret from a text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text itself, not redacted, or "" for the zero Secret.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty reports whether the text is empty.
func (s Secret) Empty() bool { return s.Reveal() == "" }

// Equal reports whether two secrets have the same text. It compares secrets of equal length in constant time.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String returns "[redacted]", so that printing a secret does not reveal it. Reveal returns the text.
func (Secret) String() string { return redacted }

// GoString returns "[redacted]", for the verb %#v.
func (Secret) GoString() string { return redacted }

// Format writes "[redacted]" to f, for every verb and flag.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns "[redacted]" and never an error. A secret is not encoded, so decoding the result does not
// give it back.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns the JSON text "[redacted]" and never an error. A secret is not encoded, so decoding the
// result does not give it back.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// LogValue returns "[redacted]" for slog, in place of the text.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// UnmarshalText makes text the secret's text, for example from a configuration. It accepts every text and never
// fails.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}
