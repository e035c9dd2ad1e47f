package dialect

import (
	"net/url"
	slashes "path"
	"strconv"
	"strings"
)

// afterLast returns the part of path behind the last mark in it, and false without a mark.
func afterLast(path, mark string) (rest string, ok bool) {
	i := strings.LastIndex(path, mark)
	if i < 0 {
		return "", false
	}
	return path[i+len(mark):], true
}

// unescapeSegment returns a path segment without its escapes, and a malformed one as it is.
func unescapeSegment(segment string) string {
	if plain, err := url.PathUnescape(segment); err == nil {
		return plain
	}
	return segment
}

// cutVerb splits "model:verb" at its last colon, unescapes the model, and returns both and true. Without a
// colon it returns all as the model, and false.
func cutVerb(rest string) (model, verb string, ok bool) {
	i := strings.LastIndexByte(rest, ':')
	if i < 0 {
		return unescapeSegment(rest), "", false
	}
	return unescapeSegment(rest[:i]), rest[i+1:], true
}

// normalPath returns a path as providers read it: without escapes, "." and "..", and a "/" at the end. An
// escaped slash or percent sign stays escaped.
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

// foldedPath returns a path with ASCII letters in lower case and "%2F" as "/", for servers that read both
// alike.
func foldedPath(path string) string { return strings.ReplaceAll(lowerASCII(path), "%2f", "/") }

// lowerASCII returns the path with ASCII letters in lower case. It keeps every other byte, so that positions
// stay the same.
func lowerASCII(path string) string {
	plain := []byte(path)
	for i, c := range plain {
		if 'A' <= c && c <= 'Z' {
			plain[i] = c | 0x20
		}
	}
	return string(plain)
}
