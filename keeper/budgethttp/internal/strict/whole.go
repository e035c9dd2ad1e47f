package strict

import (
	"bytes"
	"math/big"
)

// longest bounds a number that is looked at, in bytes: 9223372036854775807.000 has 23.
const longest = 32

// whole is a document of JSON with its whole numbers as digits alone: 44.0 and 4.4e1, which
// are whole numbers to JSON's schemas, and texts to encoding/json.
func whole(data []byte) []byte {
	if !bytes.ContainsAny(data, ".eE") {
		return data
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		n := 1
		switch {
		case data[i] == '"':
			n = textLength(data[i:])
			out = append(out, data[i:i+n]...)
		case data[i] == '-' || '0' <= data[i] && data[i] <= '9':
			n = len(data[i:]) - len(bytes.TrimLeft(data[i:], "+-.0123456789eE"))
			out = append(out, digits(data[i:i+n])...)
		default:
			out = append(out, data[i])
		}
		i += n
	}
	return out
}

// textLength is the length of the string that data begins with, in its quotes.
func textLength(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// digits is a number as digits alone if it is whole, and else as it is.
func digits(number []byte) []byte {
	if len(number) > longest || !bytes.ContainsAny(number, ".eE") {
		return number
	}
	mantissa, exponent, _ := bytes.Cut(bytes.ToLower(number), []byte("e"))
	if len(bytes.TrimLeft(exponent, "+-0")) > 2 || len(mantissa) == 0 { // beyond any amount; and it would take room
		return number
	}
	value, ok := new(big.Rat).SetString(string(number))
	if !ok || !value.IsInt() {
		return number
	}
	return []byte(value.Num().String())
}
