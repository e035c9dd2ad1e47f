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
	// MaxTokens bounds every amount, in whole tokens: 10^12, so that a bucket's numbers and the sums
	// of a batch stay far from the largest int64.
	MaxTokens = 1_000_000_000_000
	// MaxLimits is how many limits are configured for one bucket.
	MaxLimits = 20
	// MaxStored is how many limits a bucket is made to hold, with those that
	// left the configuration and have not refilled yet: a claim of as many fits
	// the 4 KB and the 300 operators of an expression.
	MaxStored = 2 * MaxLimits
	// MaxDepth bounds the levels of an entity and its parents.
	MaxDepth = 8
	// MaxGroups bounds the groups of a resource.
	MaxGroups = 8
)

// CheckEntity says what is wrong with an entity id, or "" if nothing is.
func CheckEntity(id string) string { return checkIdentifier(id, maxIdentifier, false) }

// CheckResource says what is wrong with a resource, or "" if nothing is.
func CheckResource(r string) string { return checkIdentifier(r, maxIdentifier, true) }

// CheckGroup says what is wrong with the name of a group, or "" if nothing is.
func CheckGroup(group string) string {
	if group == DefaultResource {
		return fmt.Sprintf("%q means every resource; give the group another name", group)
	}
	return CheckResource(group)
}

// CheckGroups says what is wrong with the groups of a resource, or "" if nothing is.
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

// CheckNamespace says what is wrong with a namespace, or "" if nothing is.
func CheckNamespace(ns string) string { return checkIdentifier(ns, maxIdentifier, false) }

// CheckCompatibleResource says why zae-limiter refuses a resource that
// CheckResource accepts, or "" if it does not.
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

// checkIdentifier says what is wrong with an identifier of so many characters at most, or "" if nothing
// is.
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

// CheckLimitName says what is wrong with a limit's name, or "" if nothing is.
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

// CheckManager says what is wrong with the name of what manages an item, or "" if nothing
// is: it may be empty, which is nothing.
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
