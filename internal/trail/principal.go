package trail

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// maxPrincipal bounds a principal in characters, maxBytes in bytes: it is part of a sort
// key, which DynamoDB bounds.
const maxPrincipal, maxBytes = 256, 900

// CheckPrincipal returns the problem of a principal's name, or "". An ARN, an address and a name of
// a service are fine.
func CheckPrincipal(p string) string {
	switch {
	case p == "":
		return "is empty; say who makes the change"
	case !utf8.ValidString(p):
		return "is not UTF-8; say who makes the change in plain text"
	case utf8.RuneCountInString(p) > maxPrincipal:
		return fmt.Sprintf("has %d characters; at most %d are allowed", utf8.RuneCountInString(p), maxPrincipal)
	case len(p) > maxBytes:
		return fmt.Sprintf("has %d bytes; at most %d are allowed", len(p), maxBytes)
	}
	for _, r := range p {
		if !unicode.IsGraphic(r) {
			return fmt.Sprintf("%q contains %q; use characters that can be seen", p, r)
		}
	}
	return ""
}
