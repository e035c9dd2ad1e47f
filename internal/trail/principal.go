package trail

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// maxPrincipal bounds a principal in characters, maxBytes in bytes: it is part of a sort
// key, which DynamoDB bounds.
const maxPrincipal, maxBytes = 256, 900

// maxReason bounds a reason in characters.
const maxReason = 500

// CheckPrincipal returns why a principal is invalid, as a text, or "". An ARN, an address and the name of a
// service are valid.
func CheckPrincipal(p string) string {
	if p == "" {
		return "is empty; say who makes the change"
	}
	if len(p) > maxBytes {
		return fmt.Sprintf("has %d bytes; at most %d are allowed", len(p), maxBytes)
	}
	return checkVisible(p, maxPrincipal)
}

// CheckReason returns why a reason is invalid, as a text, or "". A reason may be empty.
func CheckReason(reason string) string { return checkVisible(reason, maxReason) }

// checkVisible returns why a text is invalid, as a text, or "": it is not UTF-8, has more than most characters,
// or an invisible one.
func checkVisible(text string, most int) string {
	if !utf8.ValidString(text) {
		return "is not UTF-8; write it in plain text"
	}
	if n := utf8.RuneCountInString(text); n > most {
		return fmt.Sprintf("has %d characters; at most %d are allowed", n, most)
	}
	for _, r := range text {
		if !unicode.IsGraphic(r) {
			return fmt.Sprintf("%q contains %q; use characters that can be seen", text, r)
		}
	}
	return ""
}
