package manifest

import (
	"encoding/json"
	"errors"

	"go.yaml.in/yaml/v3"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// reserve is the part of a limit that is kept from batch calls, as the file has it: a number, a part of the burst such
// as 20%, none, or "" for the default.
type reserve string

// reserveOf returns the reserve of a limit for a file: tokens, dollars of money, or none. It is "" for the
// default.
func reserveOf(l dynalimit.Limit) reserve {
	if l.Reserve > 0 && l.Unit == "" {
		return reserve(amountOf(l.Reserve))
	}
	return reserve(notation.ReserveText(l))
}

// parseReserve checks the text of a reserve: a number, a part of the burst such as 20%, dollars, or none. It
// returns it as it is, or "" and the fault; else the fault is "".
func parseReserve(text string) (reserve, string) {
	if _, err := notation.ParseReserve(dynalimit.Limit{Capacity: 1, Unit: dynalimit.USD}, text); err != nil {
		return "", "is no reserve: write a number, a part of the burst up to 50%, or none"
	}
	return reserve(text), ""
}

// isNumber reports whether the reserve is a number without a unit.
func (r reserve) isNumber() bool {
	_, err := notation.ParseCount(string(r))
	return err == nil
}

// MarshalYAML returns a number as a plain node, and another text, such as "20%" or "none", as a quoted one.
func (r reserve) MarshalYAML() (any, error) {
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: string(r)}
	if !r.isNumber() {
		node.Style = yaml.DoubleQuotedStyle
	}
	return node, nil
}

// MarshalJSON encodes the reserve as a number if it is one, else as a text such as "20%" or "none".
func (r reserve) MarshalJSON() ([]byte, error) {
	if n, err := notation.ParseCount(string(r)); err == nil {
		return json.Marshal(n)
	}
	return json.Marshal(string(r))
}

// withReserve returns a copy of l with the reserve r of the file, in tokens or micro-dollars. A malformed
// reserve, or one of more than half the burst, is an error. For an empty r it returns l as it is.
func (r reserve) withReserve(l dynalimit.Limit) (dynalimit.Limit, error) {
	if r == "" {
		return l, nil
	}
	n, err := notation.ParseReserve(l, string(r))
	if err == nil && n > l.Burst/2 {
		err = errors.New("is more than half of the burst: write at most 50%")
	}
	return l.WithReserve(n), err
}
