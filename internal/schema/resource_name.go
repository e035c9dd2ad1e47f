package schema

import (
	"fmt"
	"hash/fnv"
)

// ResourceName makes a resource from a foreign text, such as the pattern of a route; "" stays "". "_" replaces
// each byte other than letters, digits and - . /, and "x" replaces a first byte that is neither letter nor
// digit. A text above the length of a resource keeps its end, after a hash of all of it.
func ResourceName(text string) string {
	name := make([]byte, 0, len(text))
	for i := range len(text) {
		c := text[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '-' || c > '9') { // - . / and digits are in a row
			c = '_'
		}
		name = append(name, c)
	}
	if len(name) > maxIdentifier {
		h := fnv.New64a()
		_, _ = h.Write([]byte(text)) // never fails
		hash := fmt.Sprintf("x%016x-", h.Sum64())
		name = append([]byte(hash), name[len(name)-maxIdentifier+len(hash):]...)
	}
	if len(name) > 0 && classOf[name[0]]&(letters|digits) == 0 { // of ASCII
		name[0] = 'x'
	}
	return string(name)
}
