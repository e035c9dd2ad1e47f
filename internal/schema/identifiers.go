package schema

import (
	"fmt"
	"slices"
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

// CheckEntity returns why an entity id is invalid, as a text, or "" for a valid one. An id has 1 to 256
// letters, digits and _ . - : @ and begins with a letter or digit.
func CheckEntity(id string) string { return checkIdentifier(id, maxIdentifier, 0) }

// CheckResource returns why a resource is invalid, as a text, or "". A resource is like an entity id and may
// also contain slashes.
func CheckResource(r string) string { return checkIdentifier(r, maxIdentifier, slash) }

// CheckGroup returns why the name of a group is invalid, as a text, or "". A group is a resource other than
// DefaultResource.
func CheckGroup(group string) string {
	if group == DefaultResource {
		return fmt.Sprintf("%q means every resource; give the group another name", group)
	}
	return CheckResource(group)
}

// CheckGroups returns why the groups of a resource are invalid, as a text, or "". It refuses more than
// MaxGroups, invalid and repeated names, and the resource itself.
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

// CheckNamespace returns why a namespace is invalid, as a text, or "". The rules are those of an entity id.
func CheckNamespace(ns string) string { return checkIdentifier(ns, maxIdentifier, 0) }

// CheckCompatibleResource returns why zae-limiter refuses a valid resource, as a text, or "". It takes at most
// 64 letters, digits and _ . - /, with a letter first.
func CheckCompatibleResource(r string) string {
	if len(r) > maxLimitName {
		return fmt.Sprintf("has %d characters; at most %d are allowed", len(r), maxLimitName)
	}
	switch i, c := wrongCharacter(r, letters, letters|digits|marks|slash); {
	case i == 0:
		return fmt.Sprintf("%q starts with %q; start with a letter", r, c)
	case i > 0:
		return fmt.Sprintf("%q contains %q; use letters, digits and _ . - /", r, c)
	}
	return ""
}

// checkIdentifier returns why an identifier is invalid, as a text, or "". It has at most `most` characters:
// letters, digits, _ . - : @ and the classes in others. The first is a letter or digit.
func checkIdentifier(s string, most int, others classes) string {
	if s == "" {
		return "is empty; give a name that starts with a letter or digit"
	}
	if len(s) > most { // bytes
		if n := utf8.RuneCountInString(s); n > most {
			return fmt.Sprintf("has %d characters; at most %d are allowed", n, most)
		}
	}
	switch i, c := wrongCharacter(s, letters|digits, letters|digits|marks|signs|others); {
	case i == 0:
		return fmt.Sprintf("%q starts with %q; start with a letter or digit", s, c)
	case i > 0 && others == slash:
		return fmt.Sprintf("%q contains %q; use letters, digits and _ . - : @ /", s, c)
	case i > 0:
		return fmt.Sprintf("%q contains %q; use letters, digits and _ . - : @", s, c)
	}
	return ""
}

// CheckLimitName returns why a limit's name is invalid, as a text, or "". A name has 1 to 64 letters, digits
// and _ . - and begins with a letter.
func CheckLimitName(s string) string {
	if s == "" {
		return "is empty; give a name such as \"rpm\""
	}
	if len(s) > maxLimitName { // bytes
		if n := utf8.RuneCountInString(s); n > maxLimitName {
			return fmt.Sprintf("has %d characters; at most %d are allowed", n, maxLimitName)
		}
	}
	switch i, c := wrongCharacter(s, letters, letters|digits|marks); {
	case i == 0:
		return fmt.Sprintf("%q starts with %q; start with a letter", s, c)
	case i > 0:
		return fmt.Sprintf("%q contains %q; use letters, digits and _ . -", s, c)
	}
	return ""
}

// CheckManager returns why the name of an item's manager is invalid, as a text, or "". A name has at most 64
// letters, digits and _ . - : @ /; it may be empty.
func CheckManager(s string) string {
	if len(s) > maxManager {
		return fmt.Sprintf("has %d bytes; at most %d are allowed", len(s), maxManager)
	}
	const allowed = letters | digits | marks | signs | slash
	if i, c := wrongCharacter(s, allowed, allowed); i >= 0 {
		return fmt.Sprintf("%q contains %q; use letters, digits and _ . - : @ /", s, c)
	}
	return ""
}

// classes are sets of characters, all of ASCII.
type classes uint8

const (
	letters classes = 1 << iota
	digits
	marks // _ . -
	signs // : @
	slash
)

// classOf has the class of each character of ASCII; 0 without one.
var classOf = func() (of [utf8.RuneSelf]classes) {
	for class, characters := range map[classes]string{
		letters: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", digits: "0123456789", marks: "_.-", signs: ":@", slash: "/",
	} {
		for _, c := range characters {
			of[c] = class
		}
	}
	return of
}()

// wrongCharacter returns the byte offset and the first character of s outside the allowed classes; -1 and 0 if
// all characters fit. The first character must be of first, the others of rest.
func wrongCharacter(s string, first, rest classes) (int, rune) {
	allowed := first
	for i, c := range s {
		if c >= utf8.RuneSelf || classOf[c]&allowed == 0 {
			return i, c
		}
		allowed = rest
	}
	return -1, 0
}
