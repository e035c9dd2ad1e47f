package problem

import (
	"fmt"
	"regexp"
	"unicode/utf8"
)

var (
	namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	// labelPattern has room for the ids of models, because a label may be one.
	labelPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)
	uuidPattern  = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// CheckUUID returns why a text is no UUID. It is empty for a UUID.
func CheckUUID(id string) string {
	if uuidPattern.MatchString(id) {
		return ""
	}
	return fmt.Sprintf("%q is not a lower-case UUID of 36 characters", id)
}

// CheckName returns the problem of the name of an app, a tag or a price list. It is empty for a valid name.
func CheckName(name string) string {
	if namePattern.MatchString(name) {
		return ""
	}
	return fmt.Sprintf("%q is not 1 to 64 of A-Z a-z 0-9 . _ - starting with a letter or digit", name)
}

// CheckLabel returns the problem of a model's label. It is empty for a valid label.
func CheckLabel(label string) string {
	if labelPattern.MatchString(label) {
		return ""
	}
	return fmt.Sprintf("%q is not 1 to 128 of A-Z a-z 0-9 . _ : / - starting with a letter or digit", label)
}

// CheckText returns why DynamoDB would not store a text as it is, or why it is longer than most bytes.
// It is empty for any other text.
func CheckText(text string, most int) string {
	if len(text) > most {
		return fmt.Sprintf("longer than %d bytes", most)
	}
	if !utf8.ValidString(text) {
		return fmt.Sprintf("%q is not UTF-8", text)
	}
	return ""
}
