package strict

import (
	"bytes"
	"math/big"
)

// longest is the maximal length of a number to convert, in bytes: 9223372036854775807.000 has
// 23.
const longest = 32

// wholeNumbers returns data with whole numbers such as 44.0 and 4.4e1 as digits, which encoding/json decodes
// into integers. Strings and other numbers stay. Without such a number it may return data itself.
func wholeNumbers(data []byte) []byte {
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
			out = append(out, asDigits(data[i:i+n])...)
		default:
			out = append(out, data[i])
		}
		i += n
	}
	return out
}

// textLength returns the length in bytes of the string at the beginning of data, with its quotes. If the string
// does not end, it is the length of data.
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

// asDigits returns a whole number as plain digits, such as 44 for 4.4e1. It returns any other
// number, or a very large one, unchanged.
func asDigits(number []byte) []byte {
	if len(number) > longest || !bytes.ContainsAny(number, ".eE") {
		return number
	}
	mantissa, exponent, _ := bytes.Cut(bytes.ToLower(number), []byte("e"))
	if len(bytes.TrimLeft(exponent, "+-0")) > 2 || len(mantissa) == 0 { // beyond any amount, and too long as digits
		return number
	}
	value, ok := new(big.Rat).SetString(string(number))
	if !ok || !value.IsInt() {
		return number
	}
	return []byte(value.Num().String())
}
