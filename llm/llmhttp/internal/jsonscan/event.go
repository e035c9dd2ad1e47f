package jsonscan

import (
	"errors"
	"strconv"
)

// Kind is the type of a value.
type Kind uint8

// The kinds. Object and Array are reported where they begin, End where they end.
const (
	Null Kind = iota
	False
	True
	Number
	String
	Object
	Array
	End
)

// Event is a value found at a path. Its bytes are valid during the call alone.
type Event struct {
	// Path is the place of the path in the list that was compiled.
	Path int
	// Kind is the type of the value.
	Kind Kind
	// Key is the key that "*" stands for, cut after 64 bytes; not of an End.
	Key []byte
	// Text is a string's value or a number's literal, cut after Options.Capture bytes, perhaps
	// within a rune.
	Text []byte
	// Len is how many bytes of the input a string has between its quotes, or a number in all.
	Len int64
	// Offset is where an object, an array or a word begins: how many bytes of the input are before it.
	Offset int64
}

var errNotWhole = errors.New("jsonscan: not a whole number from 0 to 2^53 in plain digits")

// Int returns the value of a number from 0 to 2^53 that is written in digits alone. It fails for the forms on
// which parsers may differ (signs, fractions, exponents, leading zeros), for larger numbers and for other
// kinds.
func (e Event) Int() (int64, error) {
	const most = 1 << 53
	plain := len(e.Text) == 1 || len(e.Text) > 1 && e.Text[0] != '0'
	for _, c := range e.Text {
		plain = plain && isDigit(c)
	}
	if e.Kind != Number || !plain || e.Len > int64(len(e.Text)) || len(e.Text) > len("9007199254740992") {
		return 0, errNotWhole
	}
	n, err := strconv.ParseInt(string(e.Text), 10, 64)
	if err != nil || n > most {
		return 0, errNotWhole
	}
	return n, nil
}
