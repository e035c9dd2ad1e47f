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

// NameRule is the rule for names of one kind, all of ASCII.
type NameRule struct {
	most        int     // in characters
	first, rest classes // of the first character, and of the others
	start, use  string  // first and rest in words
	example     string  // the advice for an empty name
}

// The rules for the names that users give.
var (
	// EntityRule is for entity ids, plans, parents and namespaces: 1 to 256 letters, digits and _ . - : @, of which
	// the first is a letter or digit.
	EntityRule = NameRule{
		most: maxIdentifier, first: letters | digits, rest: letters | digits | marks | signs, start: "a letter or digit",
		use: "letters, digits and _ . - : @", example: "a name that starts with a letter or digit",
	}
	// ResourceRule is for resources. They are like entity ids, and may also contain slashes.
	ResourceRule = NameRule{
		most: maxIdentifier, first: letters | digits, rest: letters | digits | marks | signs | slash, start: "a letter or digit",
		use: "letters, digits and _ . - : @ /", example: "a name that starts with a letter or digit",
	}
	// LimitRule is for names of limits: 1 to 64 letters, digits and _ . -, of which the first is a letter.
	LimitRule = NameRule{
		most: maxLimitName, first: letters, rest: letters | digits | marks, start: "a letter",
		use: "letters, digits and _ . -", example: "a name such as \"rpm\"",
	}
	// CompatibleRule is for resources that zae-limiter accepts too: at most 64 letters, digits and _ . - /, of which
	// the first is a letter.
	CompatibleRule = NameRule{
		most: maxLimitName, first: letters, rest: letters | digits | marks | slash, start: "a letter",
		use: "letters, digits and _ . - /", example: "a name that starts with a letter",
	}
)

// Check returns why a name is invalid, as a text, or "" for a valid one.
func (r *NameRule) Check(name string) string {
	if name == "" {
		return "is empty; give " + r.example
	}
	if len(name) > r.most { // bytes
		if n := utf8.RuneCountInString(name); n > r.most {
			return fmt.Sprintf("has %d characters; at most %d are allowed", n, r.most)
		}
	}
	switch i, c := wrongCharacter(name, r.first, r.rest); {
	case i == 0:
		return fmt.Sprintf("%q starts with %q; start with %s", name, c, r.start)
	case i > 0:
		return fmt.Sprintf("%q contains %q; use %s", name, c, r.use)
	}
	return ""
}

// CheckGroup returns why the name of a group is invalid, as a text, or "". A group is a resource other than
// DefaultResource.
func CheckGroup(group string) string {
	if group == DefaultResource {
		return fmt.Sprintf("%q means every resource; give the group another name", group)
	}
	return ResourceRule.Check(group)
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
