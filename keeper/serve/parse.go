package keeper

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit/internal/yamlfile"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

// Span is a duration in the file: 90s, 15m, 24h.
type Span time.Duration

// Micros is an amount in the file: whole µ$.
type Micros int64

// Metering is the name of a metering in the file.
type Metering budget.Metering

// Policy is the name of a policy in the file.
type Policy budget.Policy

// form is the form of a keeper's configuration file.
var form = yamlfile.Form{
	Scalar: setScalar, Help: func(any) string { return "its keys below it, each indented by two spaces" },
}

// setScalar parses text into the Span, Micros, Metering or Policy that to points to, and returns "". For an
// invalid text it returns the reason, and the value is wrong. It ignores pointers to other types.
func setScalar(to any, text string) (reason string) {
	switch to := to.(type) {
	case *Span:
		d, err := time.ParseDuration(text)
		if *to = Span(d); err != nil {
			return fmt.Sprintf("is %q: write a time such as 90s, 15m or 24h", text)
		}
	case *Micros: // a fraction of a µ$ is refused, not truncated
		n, err := strconv.ParseInt(text, 10, 64)
		if *to = Micros(n); err != nil {
			return fmt.Sprintf("is %q: write whole µ$ per million tokens, such as 3000000", text)
		}
	case *Metering:
		return setName(to, text, Metering(budget.MeteringStrict), Metering(budget.MeteringBatch))
	case *Policy:
		return setName(to, text, Policy(budget.Refuse), Policy(budget.Allow))
	}
	return ""
}

// setName sets *to to text. If text is neither empty nor one of names, it returns the reason for the user, else
// "".
func setName[T ~string](to *T, text string, names ...T) (reason string) {
	if *to = T(text); text != "" && !slices.Contains(names, *to) {
		return fmt.Sprintf("is %q: write one of %q", text, names)
	}
	return ""
}

// Parse decodes a configuration from YAML over the values of Default. It fails with yamlfile.Problems, sorted
// by place: unknown or duplicate keys, wrong values, a second document. file only names the file in them;
// ranges are left to Check.
func Parse(file string, text []byte) (Config, error) {
	c := Default()
	if r := yamlfile.DecodeFile(file, text, form, &c); len(r.Problems) > 0 {
		return c, r.Problems.SortInPlace()
	}
	return c, nil
}
