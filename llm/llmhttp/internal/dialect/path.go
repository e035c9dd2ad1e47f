package dialect

import (
	"net/url"
	slashes "path"
	"strconv"
	"strings"
)

// afterLast is the rest of a path behind the last mark in it.
func afterLast(path, mark string) (rest string, ok bool) {
	i := strings.LastIndex(path, mark)
	if i < 0 {
		return "", false
	}
	return path[i+len(mark):], true
}

func unescaped(segment string) string {
	if plain, err := url.PathUnescape(segment); err == nil {
		return plain
	}
	return segment
}

// cutVerb cuts "model:verb".
func cutVerb(rest string) (model, verb string, ok bool) {
	i := strings.LastIndexByte(rest, ':')
	if i < 0 {
		return unescaped(rest), "", false
	}
	return unescaped(rest[:i]), rest[i+1:], true
}

// normalPath is a path as providers read it: "%73" is "s", and "/./" and a "/" at the end are nothing.
// A slash within a segment stays escaped, and so does a percent sign.
func normalPath(path string) string {
	plain := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			if c, err := strconv.ParseUint(path[i+1:i+3], 16, 8); err == nil && c != '/' && c != '%' {
				plain = append(plain, byte(c))
				i += 2
				continue
			}
		}
		plain = append(plain, path[i])
	}
	return slashes.Clean(string(plain))
}

// foldedPath is a path as servers read it that make no difference of cases, nor of "/" and "%2F".
func foldedPath(path string) string { return strings.ReplaceAll(lower(path), "%2f", "/") }

// lower has the letters of ASCII in lower case, and each byte where it was.
func lower(path string) string {
	plain := []byte(path)
	for i, c := range plain {
		if 'A' <= c && c <= 'Z' {
			plain[i] = c | 0x20
		}
	}
	return string(plain)
}
