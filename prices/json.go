package prices

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/dynalimit/dynalimit/internal/problem"
)

// The bounds of a price list: the lists of the two formats have about a tenth of each.
const (
	maxListBytes  = 16 << 20
	maxListDepth  = 24
	maxListModels = 20_000
)

// The bounds of a number in a price list, so that every number is cheap to read.
const (
	maxNumberText     = 64
	maxNumberExponent = 40
)

// ErrList means that the input is not a price list. Nothing was taken from it. The
// returned error describes the mistake, and wraps the error of the list's source.
var ErrList = errors.New("prices: price list")

// readList returns the whole list, at most 16 MiB of JSON. It refuses JSON that readers understand differently:
// repeated names, values after the end, deep nesting. Its errors match ErrList, except for a nil r.
func readList(r io.Reader) ([]byte, error) {
	if problem.IsNil(r) {
		return nil, invalid("r", "is nil; pass the list's JSON, for example an *os.File")
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxListBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: cannot be read: %w", ErrList, err)
	}
	if len(raw) > maxListBytes {
		return nil, fmt.Errorf("%w: has more than %d MiB", ErrList, maxListBytes>>20)
	}
	if err := checkStrictJSON(raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrList, err)
	}
	return raw, nil
}

// level is an array or object that is open.
type level struct {
	names map[string]bool // of an object; nil for an array
	name  bool            // an object's next token is a name
}

// checkStrictJSON fails unless raw is exactly one JSON value, at most 24 levels deep, without an object that
// has a name twice.
func checkStrictJSON(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var open []level
	for first := true; ; first = false {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) && !first && len(open) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("is not JSON: %w", err)
		}
		if !first && len(open) == 0 {
			return errors.New("goes on after its end")
		}
		if open, err = nextLevels(open, token); err != nil {
			return err
		}
		if len(open) > maxListDepth {
			return fmt.Errorf("is nested deeper than %d", maxListDepth)
		}
	}
}

// nextLevels returns the open arrays and objects after the token, and changes open in place. It fails if the
// token repeats a name of its object.
func nextLevels(open []level, token json.Token) ([]level, error) {
	last := len(open) - 1
	switch delim, isDelim := token.(json.Delim); {
	case isDelim && (delim == '}' || delim == ']'):
		return open[:last], nil
	case last >= 0 && open[last].name:
		name, _ := token.(string)
		if open[last].names[name] {
			return nil, fmt.Errorf("has %q twice in one object", clipText(name))
		}
		open[last].names[name], open[last].name = true, false
		return open, nil
	case isDelim:
		if last >= 0 {
			open[last].name = open[last].names != nil
		}
		l := level{}
		if delim == '{' {
			l = level{names: map[string]bool{}, name: true}
		}
		return append(open, l), nil
	default:
		if last >= 0 {
			open[last].name = open[last].names != nil
		}
		return open, nil
	}
}

// clipText returns a text of a list for a message, cut after 80 bytes and in valid UTF-8.
func clipText(text string) string {
	const most = 80
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "?")
}

// jsonFields returns an object's raw values by their exact names. It returns false if raw is not an object.
func jsonFields(raw json.RawMessage) (fields map[string]json.RawMessage, ok bool) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, false
	}
	return fields, json.Unmarshal(raw, &fields) == nil
}

// textField returns the field of that name if it is a string, and "" otherwise.
func textField(fields map[string]json.RawMessage, name string) (s string) {
	if raw := fields[name]; len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// sortedNames returns the names of an object's values, sorted.
func sortedNames(fields map[string]json.RawMessage) []string { return slices.Sorted(maps.Keys(fields)) }

// rateFrom converts a decimal in dollars per token into micro-dollars per million tokens, rounded half up, and
// at least 1. A price of 0 becomes FreeRate. It fails for a negative, malformed or too large price.
func rateFrom(raw json.RawMessage) (int64, error) {
	n := string(raw)
	if err := checkNumber(n); err != nil {
		return 0, err
	}
	r, ok := new(big.Rat).SetString(n)
	if !ok || r.Sign() < 0 {
		return 0, fmt.Errorf("%q is not a price", n)
	}
	if r.Sign() == 0 {
		return FreeRate, nil
	}
	r.Mul(r, new(big.Rat).SetInt64(1_000_000_000_000)) // a million tokens, a million µ$
	twice := new(big.Int).Lsh(r.Num(), 1)
	half := twice.Add(twice, r.Denom())
	q := half.Quo(half, new(big.Int).Lsh(r.Denom(), 1))
	if !q.IsInt64() || q.Int64() > maxRate {
		return 0, fmt.Errorf("%q is too large a price", n)
	}
	return max(1, q.Int64()), nil
}

// checkNumber fails unless n is a number of at most 64 characters with an exponent of at most ±40, which is
// cheap to parse exactly.
func checkNumber(n string) error {
	if n == "" || n[0] != '-' && (n[0] < '0' || n[0] > '9') || strings.ContainsFunc(n, func(c rune) bool { return !strings.ContainsRune("0123456789.eE+-", c) }) {
		return fmt.Errorf("%q is not a number", clipText(n))
	}
	if len(n) > maxNumberText {
		return fmt.Errorf("%q has more than %d characters", clipText(n), maxNumberText)
	}
	if at := strings.IndexAny(n, "eE"); at >= 0 {
		exponent, err := strconv.Atoi(n[at+1:])
		if err != nil || exponent < -maxNumberExponent || exponent > maxNumberExponent {
			return fmt.Errorf("%q has an exponent beyond %d", n, maxNumberExponent)
		}
	}
	return nil
}
