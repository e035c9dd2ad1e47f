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

// CheckUUID returns why a text is no UUID in lower case, as a text, or "" for a valid one.
func CheckUUID(id string) string {
	if uuidPattern.MatchString(id) {
		return ""
	}
	return fmt.Sprintf("%q is not a lower-case UUID of 36 characters", id)
}

// CheckName returns why the name of an app, a tag or a price list is invalid, as a text, or "" for a valid one.
func CheckName(name string) string {
	if namePattern.MatchString(name) {
		return ""
	}
	return fmt.Sprintf("%q is not 1 to 64 of A-Z a-z 0-9 . _ - starting with a letter or digit", name)
}

// CheckLabel returns why a model's label is invalid, as a text, or "" for a valid one.
func CheckLabel(label string) string {
	if labelPattern.MatchString(label) {
		return ""
	}
	return fmt.Sprintf("%q is not 1 to 128 of A-Z a-z 0-9 . _ : / - starting with a letter or digit", label)
}

// CheckText returns why a text is invalid, as a text, or "". It refuses more than most bytes, and other text
// than UTF-8, which DynamoDB does not store unchanged.
func CheckText(text string, most int) string {
	if len(text) > most {
		return fmt.Sprintf("longer than %d bytes", most)
	}
	if !utf8.ValidString(text) {
		return fmt.Sprintf("%q is not UTF-8", text)
	}
	return ""
}
