package jsonscan

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Paths is a set of paths. It never changes, so any number of scanners may share it.
type Paths struct {
	root     *node
	anywhere *node // of the values at any depth; nil if no path begins with "**"
	longest  int   // bytes of the longest spelling of a key
}

// node is a value on a path. A value on no path has a nil one.
type node struct {
	name    string    // the path that leads to it
	written string    // its key with all spellings
	path    int       // the place in the list of the path that ends here, or none
	bit     uint64    // of its key, in frame.seen; 0 if the key may be there twice
	named   bool      // a path leads to it by "*": Event.Key says its key
	other   *node     // the values in an object whose keys are not in keys
	keys    []spelled // of the values in an object
	lengths uint64    // of the spellings in keys, a bit each; the last is for 63 bytes and more
	element *node     // each element of an array
}

// spelled is a spelling of a key. Searching a list of them is faster than a map, because most keys
// differ from all spellings in length.
type spelled struct {
	key  string
	node *node
}

const none = -1

// longestOther is how many bytes of a key Event.Key holds at most.
const longestOther = 64

// Compile makes a set of paths; the first has the id 0. A path is keys joined by "."; in
// their place:
//
//   - "a|b" is one key that has two spellings, which is written so in every path;
//   - "a[]" is each element of the array at a, and a path that begins with "[]" each element of
//     an array that is the whole value;
//   - "*" is each other key of an object, which Event.Key names;
//   - "**", at the beginning, is any depth: such a path leads to a value wherever it is in objects
//     and arrays, unless another path begins at the same key.
//
// A path may be the beginning of another. Compile panics if the list is wrong, which is a
// constant of the program, or if one object has more than 64 spellings of keys in it.
func Compile(paths ...string) *Paths {
	p := &Paths{root: &node{path: none}}
	for id, path := range paths {
		at, rest := p.root, path
		if deep, ok := strings.CutPrefix(path, "**."); ok {
			if p.anywhere == nil {
				p.anywhere = &node{path: none}
			}
			at, rest = p.anywhere, deep
		}
		for i, part := range strings.Split(rest, ".") {
			key := strings.TrimRight(part, "[]")
			arrays := part[len(key):]
			if i > 0 || key != "" || arrays == "" {
				at = p.addChild(at, key, path)
				if rest != path {
					at.bit = 0
				}
			}
			for ; strings.HasPrefix(arrays, "[]"); arrays = arrays[2:] {
				if at.element == nil {
					at.element = &node{name: at.name + "[]", path: none}
				}
				at = at.element
			}
			panicIf(arrays != "", path)
		}
		panicIf(at.path != none, path)
		at.path = id
	}
	return p
}

// addChild returns the node of a key below n, as a path writes it with all spellings, and adds it if it is new.
// It panics with the path if the key is malformed or spelled differently than in another path.
func (p *Paths) addChild(n *node, key, path string) *node {
	if key == "*" {
		p.longest = max(p.longest, longestOther-1)
		if n.other == nil {
			n.other = &node{name: strings.TrimPrefix(n.name+".*", "."), path: none, named: true}
		}
		return n.other
	}
	spellings := strings.Split(key, "|")
	if c := n.listedChild([]byte(spellings[0])); c != nil && c.written == key {
		return c
	}
	c := &node{name: strings.TrimPrefix(n.name+"."+spellings[0], "."), written: key, path: none, bit: 1 << len(n.keys)}
	for _, spelling := range spellings {
		bad := spelling == "" || strings.ContainsAny(spelling, "[]") || !utf8.ValidString(spelling)
		panicIf(bad || n.listedChild([]byte(spelling)) != nil, path)
		n.keys = append(n.keys, spelled{spelling, c})
		n.lengths |= 1 << min(len(spelling), 63)
		p.longest = max(p.longest, len(spelling))
	}
	panicIf(len(n.keys) > 64, path)
	return c
}

// panicIf panics with the path if wrong is true.
func panicIf(wrong bool, path string) {
	if wrong {
		panic(fmt.Sprintf("jsonscan: path %q is there twice, spells a key otherwise than another does, or is none", path))
	}
}

// childBelow returns the node of a key in an object at node n. A path with the key comes first, then one with
// "*", then one at any depth. It is nil if no path goes there; n may be nil.
func (p *Paths) childBelow(n *node, key []byte) *node {
	if c := n.listedChild(key); c != nil {
		return c
	}
	if n != nil && n.other != nil {
		return n.other
	}
	return p.anywhere.listedChild(key)
}

// hasKey reports whether any key of an object at node n may be on a path, so that keys must be read.
func (p *Paths) hasKey(n *node) bool {
	return p.anywhere != nil || n != nil && (len(n.keys) > 0 || n.other != nil)
}

// listedChild returns the node of the key, in any spelling, that is listed below n. It is nil if it is not, and
// for a nil n.
func (n *node) listedChild(key []byte) *node {
	if n == nil || n.lengths>>min(len(key), 63)&1 == 0 {
		return nil
	}
	for i := range n.keys {
		if n.keys[i].key == string(key) {
			return n.keys[i].node
		}
	}
	return nil
}

// elementNode returns the node of the elements of an array at n. It is nil if no path goes there, and for a nil
// n.
func (n *node) elementNode() *node {
	if n == nil {
		return nil
	}
	return n.element
}

// isReported reports whether a path ends at n, so that its value is an event. It is false for nil.
func (n *node) isReported() bool { return n != nil && n.path != none }
