package value

import (
	"encoding/base64"
	"strconv"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// Append appends v with its type in the JSON of the wire protocol, such as {"S":"text"}.
func Append(b []byte, v Value) []byte {
	b = append(b, '{', '"')
	b = append(b, v.Type()...)
	b = append(b, '"', ':')
	switch v := v.(type) {
	case String:
		b = wire.AppendString(b, string(v))
	case Number:
		b = append(v.Append(append(b, '"')), '"')
	case Binary:
		b = appendBinary(b, string(v))
	case Bool:
		b = strconv.AppendBool(b, bool(v))
	case Null:
		b = append(b, "true"...)
	case List:
		b = appendArray(b, v, Append)
	case Map:
		b = AppendMap(b, v)
	case StringSet:
		b = appendArray(b, v, wire.AppendString)
	case NumberSet:
		b = appendArray(b, v, func(b []byte, n Number) []byte { return append(n.Append(append(b, '"')), '"') })
	case BinarySet:
		b = appendArray(b, v, appendBinary)
	}
	return append(b, '}')
}

// AppendMap appends m to b as a JSON object of typed values, without the {"M": …} around it. The order of
// attributes is random.
func AppendMap(b []byte, m Map) []byte {
	b = append(b, '{')
	for name, v := range m {
		b = Append(wire.Field(b, name), v)
	}
	return append(b, '}')
}

// appendBinary appends raw bytes as a JSON string in base64.
func appendBinary(b []byte, raw string) []byte {
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, []byte(raw))
	return append(b, '"')
}

// appendArray appends a JSON array; the function one appends each element.
func appendArray[T any](b []byte, elements []T, one func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, e := range elements {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, e)
	}
	return append(b, ']')
}
