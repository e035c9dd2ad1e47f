package prices

import (
	"slices"
	"strings"
)

// regions are the prefixes of ids for one region or geography.
var regions = []string{"us", "eu", "apac", "jp", "au", "ca", "sa", "us-gov", "regional"}

// SplitModel returns a model id without its scope prefix and revision :0, and the
// scope. ARNs of inference profiles and models count by their last part.
func SplitModel(id string) (name string, scope Scope) {
	id = id[strings.LastIndexByte(id, '/')+1:]
	scope = Regional
	prefix, rest, found := strings.Cut(id, ".")
	switch {
	case found && prefix == "global":
		id, scope = rest, Global
	case found && slices.Contains(regions, prefix):
		id = rest
	}
	return strings.TrimSuffix(id, ":0"), scope
}

// ModelNames returns the names a model's price may be filed under, the closest
// first: x-v2:1, x-v2, x. Another version's price is never among them.
func ModelNames(name string) []string {
	names := append(make([]string, 0, 3), name)
	for _, mark := range []string{":", "-v"} {
		if shorter := withoutNumber(name, mark); shorter != name && shorter != "" {
			name = shorter
			names = append(names, name)
		}
	}
	return names
}

// withoutNumber returns text without a mark and number at its end, such as ":1", and text itself without
// them.
func withoutNumber(text, mark string) string {
	rest := strings.TrimRight(text, "0123456789")
	shorter, marked := strings.CutSuffix(rest, mark)
	if !marked || rest == text {
		return text
	}
	return shorter
}
