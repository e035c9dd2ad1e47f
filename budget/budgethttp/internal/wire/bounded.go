package wire

import "github.com/danielgtaylor/huma/v2"

// Micros is an amount, or a quota, in millionths of a dollar.
type Micros int64

// Schema says what an amount of a map may be.
func (Micros) Schema(huma.Registry) *huma.Schema {
	low, high := 0.0, 1e12
	s := &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &low, Maximum: &high}
	s.PrecomputeMessages()
	return s
}

// Tag is a value of a tag.
type Tag string

// Schema says what a value may be.
func (Tag) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}
	s.PrecomputeMessages()
	return s
}

// plain is a map as the keeper takes it, nil if it is empty.
func plain[From ~int64 | ~string, To ~int64 | ~string](in map[string]From, convert func(From) To) map[string]To {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]To, len(in))
	for k, v := range in {
		out[k] = convert(v)
	}
	return out
}

func micros(m Micros) int64  { return int64(m) }
func bounded(n int64) Micros { return Micros(n) }
func tagValue(t Tag) string  { return string(t) }
