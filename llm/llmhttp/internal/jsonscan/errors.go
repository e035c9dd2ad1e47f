package jsonscan

import (
	"errors"
	"fmt"
)

// ErrDepth refuses objects and arrays in each other that are more than 1,000 deep.
var ErrDepth = errors.New("jsonscan: nested deeper than 1,000")

// SyntaxError refuses input that is not one JSON value.
type SyntaxError struct {
	Offset int64  // how many bytes are before the mistake
	Reason string // the mistake
}

// Error returns a text with the byte offset and the mistake.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("jsonscan: at byte %d: %s", e.Offset, e.Reason)
}

// DuplicateError refuses a key that an object has twice.
type DuplicateError struct {
	Path string // leads to the key, with the first spelling of each
}

// Error returns a text with the path of the repeated key.
func (e *DuplicateError) Error() string { return "jsonscan: " + e.Path + " is there twice" }
