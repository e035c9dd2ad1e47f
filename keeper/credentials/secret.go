package credentials

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// redacted is what is shown of a secret.
const redacted = "[redacted]"

// Secret is a text that nobody may see by accident: printed, logged and encoded it is
// "[redacted]", also as a field of a value that is. Reveal is the text. The zero Secret is
// empty. Secrets are compared with Equal, never with ==.
type Secret struct {
	// text is a pointer, since fmt shows the fields of a field that is not exported
	// without asking the field's type how. Of a pointer to a text it shows where that is;
	// of one to bytes or a struct it may show what is there.
	text *string
}

// NewSecret makes a secret of a text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty reports whether the text is empty.
func (s Secret) Empty() bool { return s.Reveal() == "" }

// Equal compares two secrets of one length in a time that does not depend on what they are.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String is "[redacted]".
func (Secret) String() string { return redacted }

// GoString is "[redacted]".
func (Secret) GoString() string { return redacted }

// Format writes "[redacted]", whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText is "[redacted]".
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON is "[redacted]".
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// LogValue is "[redacted]".
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// UnmarshalText takes the text, such as a field of a configuration.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}
