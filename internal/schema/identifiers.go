package schema

import "fmt"

const (
	maxIdentifier = 256
	maxLimitName  = 64
	// MaxLimits is how many limits are configured for one bucket.
	MaxLimits = 20
	// MaxStored is how many limits a bucket is made to hold, with those that
	// left the configuration and have not refilled yet: a claim of as many fits
	// the 4 KB and the 300 operators of an expression.
	MaxStored = 2 * MaxLimits
)

// CheckEntity says what is wrong with an entity id, or "" if nothing is.
func CheckEntity(id string) string { return checkIdentifier(id, false) }

// CheckResource says what is wrong with a resource, or "" if nothing is.
func CheckResource(r string) string { return checkIdentifier(r, true) }

// CheckNamespace says what is wrong with a namespace, or "" if nothing is.
func CheckNamespace(ns string) string { return checkIdentifier(ns, false) }

func checkIdentifier(s string, slash bool) string {
	if s == "" {
		return "is empty; give a name that starts with a letter or digit"
	}
	if len(s) > maxIdentifier {
		return fmt.Sprintf("has %d characters; at most %d are allowed", len(s), maxIdentifier)
	}
	for i := range len(s) {
		c := s[i]
		if alphanumeric(c) {
			continue
		}
		if i == 0 {
			return fmt.Sprintf("%q starts with %q; start with a letter or digit", s, c)
		}
		switch c {
		case '_', '.', '-', ':', '@':
			continue
		case '/':
			if slash {
				continue
			}
		}
		return fmt.Sprintf("%q contains %q; use letters, digits and _ . - : @", s, c)
	}
	return ""
}

// CheckLimitName says what is wrong with a limit's name, or "" if nothing is.
func CheckLimitName(s string) string {
	if s == "" {
		return "is empty; give a name such as \"rpm\""
	}
	if len(s) > maxLimitName {
		return fmt.Sprintf("has %d characters; at most %d are allowed", len(s), maxLimitName)
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case letter(c), i > 0 && (alphanumeric(c) || c == '_' || c == '.' || c == '-'):
		case i == 0:
			return fmt.Sprintf("%q starts with %q; start with a letter", s, c)
		default:
			return fmt.Sprintf("%q contains %q; use letters, digits and _ . -", s, c)
		}
	}
	return ""
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func alphanumeric(c byte) bool { return letter(c) || c >= '0' && c <= '9' }
