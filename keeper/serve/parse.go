package keeper

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit/internal/yamlfile"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

// Span is a time in the file: 90s, 15m, 24h.
type Span time.Duration

// Micros is an amount in the file: whole µ$.
type Micros int64

// Metering in the file is its name.
type Metering budget.Metering

// Policy in the file is its name.
type Policy budget.Policy

// form is that of a keeper's configuration.
var form = yamlfile.Form{
	Scalar: scalar, Help: func(any) string { return "its keys below it, each indented by two spaces" },
}

// scalar fills a value from a text, or says why it cannot.
func scalar(to any, text string) (reason string) {
	switch to := to.(type) {
	case *Span:
		d, err := time.ParseDuration(text)
		if *to = Span(d); err != nil {
			return fmt.Sprintf("is %q: write a time such as 90s, 15m or 24h", text)
		}
	case *Micros: // a part of a µ$ is refused, not cut off
		n, err := strconv.ParseInt(text, 10, 64)
		if *to = Micros(n); err != nil {
			return fmt.Sprintf("is %q: write whole µ$ per million tokens, such as 3000000", text)
		}
	case *Metering:
		return named(to, text, Metering(budget.MeteringStrict), Metering(budget.MeteringBatch))
	case *Policy:
		return named(to, text, Policy(budget.Refuse), Policy(budget.Allow))
	}
	return ""
}

// named fills one of some names, or an empty text.
func named[T ~string](to *T, text string, names ...T) (reason string) {
	if *to = T(text); text != "" && !slices.Contains(names, *to) {
		return fmt.Sprintf("is %q: write one of %q", text, names)
	}
	return ""
}

// Parse reads a configuration from YAML; what it leaves out or empty is as in Default. It fails
// with yamlfile.Problems, each with the file, the line, the column and the key: for keys that are
// unknown or there twice, for values of the wrong kind, and for a second document.
func Parse(file string, text []byte) (Config, error) {
	c := Default()
	if r := yamlfile.Read(file, text, form, &c); len(r.Problems) > 0 {
		return c, r.Problems.Sorted()
	}
	return c, nil
}
