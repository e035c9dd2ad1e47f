package prices

import (
	"slices"
	"strings"
)

// regions are the prefixes of ids for one region or geography.
var regions = []string{"us", "eu", "apac", "jp", "au", "ca", "sa", "us-gov", "regional"}

// SplitModel returns a model id without its scope prefix and revision :0, and the scope: Global for the prefix
// global., else Regional. Of an ARN or a path it takes the part after the last slash.
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

// ModelNames returns the names under which a model's price may be stored, the closest first: x-v2:1, x-v2, x.
// They never include another version.
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

// withoutNumber returns text without a mark and the number behind it at its end, such as ":1". Without both it
// returns text itself.
func withoutNumber(text, mark string) string {
	rest := strings.TrimRight(text, "0123456789")
	shorter, marked := strings.CutSuffix(rest, mark)
	if !marked || rest == text {
		return text
	}
	return shorter
}
