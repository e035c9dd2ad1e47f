package schema

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxIdentifier = 256
	maxLimitName  = 64
	maxManager    = 64
	// MaxTokens bounds every amount, in whole tokens: 10^12, so that a bucket's numbers and the sums of a
	// batch stay far below the largest int64.
	MaxTokens = 1_000_000_000_000
	// MaxLimits is the largest number of configured limits of one bucket.
	MaxLimits = 20
	// MaxStored is the largest number of limits in a bucket, including limits that left the configuration and
	// have not refilled yet. A claim of that number fits the 4 KB and the 300 operators of an expression.
	MaxStored = 2 * MaxLimits
	// MaxDepth bounds the levels of an entity and its parents.
	MaxDepth = 8
	// MaxGroups bounds the groups of a resource.
	MaxGroups = 8
)

// CheckEntity returns the error in an entity id, or "".
func CheckEntity(id string) string { return checkIdentifier(id, maxIdentifier, false) }

// CheckResource returns the error in a resource, or "".
func CheckResource(r string) string { return checkIdentifier(r, maxIdentifier, true) }

// CheckGroup returns the error in the name of a group, or "".
func CheckGroup(group string) string {
	if group == DefaultResource {
		return fmt.Sprintf("%q means every resource; give the group another name", group)
	}
	return CheckResource(group)
}

// CheckGroups returns the error in the groups of a resource, or "".
func CheckGroups(resource string, groups []string) string {
	if len(groups) > MaxGroups {
		return fmt.Sprintf("are %d; at most %d are allowed", len(groups), MaxGroups)
	}
	for i, group := range groups {
		switch reason := CheckGroup(group); {
		case reason != "":
			return "have a wrong name: " + reason
		case group == resource:
			return fmt.Sprintf("hold %q, which is the resource itself; leave it out", group)
		case slices.Contains(groups[:i], group):
			return fmt.Sprintf("hold %q twice; name it once", group)
		}
	}
	return ""
}

// CheckNamespace returns the error in a namespace, or "".
func CheckNamespace(ns string) string { return checkIdentifier(ns, maxIdentifier, false) }

// CheckCompatibleResource returns the reason why zae-limiter refuses a valid resource, or "".
func CheckCompatibleResource(r string) string {
	switch {
	case len(r) > maxLimitName:
		return fmt.Sprintf("has %d characters; at most %d are allowed", len(r), maxLimitName)
	case r != "" && !letter(r[0]):
		return fmt.Sprintf("%q starts with %q; start with a letter", r, r[0])
	}
	if i := strings.IndexAny(r, ":@"); i >= 0 {
		return fmt.Sprintf("%q contains %q; use letters, digits and _ . - /", r, r[i])
	}
	return ""
}

// checkIdentifier returns the error in an identifier of at most most characters, or "".
func checkIdentifier(s string, most int, slash bool) string {
	if s == "" {
		return "is empty; give a name that starts with a letter or digit"
	}
	if len(s) > most { // bytes
		if n := utf8.RuneCountInString(s); n > most {
			return fmt.Sprintf("has %d characters; at most %d are allowed", n, most)
		}
	}
	allowed := "letters, digits and _ . - : @"
	if slash {
		allowed = "letters, digits and _ . - : @ /"
	}
	for i, c := range s {
		switch {
		case alphanumeric(c):
		case i == 0:
			return fmt.Sprintf("%q starts with %q; start with a letter or digit", s, c)
		case !strings.ContainsRune("_.-:@", c) && (c != '/' || !slash):
			return fmt.Sprintf("%q contains %q; use %s", s, c, allowed)
		}
	}
	return ""
}

// CheckLimitName returns the error in a limit's name, or "".
func CheckLimitName(s string) string {
	if s == "" {
		return "is empty; give a name such as \"rpm\""
	}
	if len(s) > maxLimitName { // bytes
		if n := utf8.RuneCountInString(s); n > maxLimitName {
			return fmt.Sprintf("has %d characters; at most %d are allowed", n, maxLimitName)
		}
	}
	for i, c := range s {
		switch {
		case c < utf8.RuneSelf && letter(byte(c)), i > 0 && (alphanumeric(c) || strings.ContainsRune("_.-", c)):
		case i == 0:
			return fmt.Sprintf("%q starts with %q; start with a letter", s, c)
		default:
			return fmt.Sprintf("%q contains %q; use letters, digits and _ . -", s, c)
		}
	}
	return ""
}

// CheckManager returns the error in the name of an item's manager, or "". The name may be empty.
func CheckManager(s string) string {
	if len(s) > maxManager {
		return fmt.Sprintf("has %d bytes; at most %d are allowed", len(s), maxManager)
	}
	for _, c := range s {
		if !alphanumeric(c) && !strings.ContainsRune("_.-:@/", c) {
			return fmt.Sprintf("%q contains %q; use letters, digits and _ . - : @ /", s, c)
		}
	}
	return ""
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func alphanumeric(c rune) bool {
	return c < utf8.RuneSelf && (letter(byte(c)) || c >= '0' && c <= '9')
}
