package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

// dayFlag is a day in the library's form, 20260123. The commands print 2026-01-23.
type dayFlag string

// UnmarshalText parses a day such as 20260131, 2026-01-31 or Sat 2026-01-31, and stores it as 20260131. Other
// texts are an error.
func (d *dayFlag) UnmarshalText(text []byte) error {
	for _, layout := range []string{"20060102", time.DateOnly, "Mon " + time.DateOnly} {
		if t, err := time.Parse(layout, string(text)); err == nil {
			*d = dayFlag(t.Format("20060102"))
			return nil
		}
	}
	return fmt.Errorf("%q is not a day: write it like 2026-01-31 or 20260131", text)
}

// upperWord returns text in upper case if it is one of words, which are lower-case. The case of text does not
// matter. Otherwise it returns "" and an error that lists words.
func upperWord(text []byte, words ...string) (string, error) {
	if word := strings.ToLower(string(text)); slices.Contains(words, word) {
		return strings.ToUpper(word), nil
	}
	return "", fmt.Errorf("%q is not %s", text, strings.Join(words, " or "))
}

type scopeFlag budget.Scope

// UnmarshalText stores org or app, typed in any case, in upper case. Other words are an error and store "".
func (s *scopeFlag) UnmarshalText(text []byte) error {
	word, err := upperWord(text, "org", "app")
	*s = scopeFlag(word)
	return err
}

// flags maps fields of the library to flags and arguments.
var flags = map[string]string{
	"org_id": "ORG", "app_id": "APP", "model_label": "LABEL", "tag": "TAG", "model": "MODEL",
	"model_ordering": "--ordering", "quotas": "--quota", "models": "--model", "timezone": "--timezone",
	"quota_scope": "--scope", "agg_shard_count": "--shards", "org_name": "--name", "app_name": "--name",
	"tight_mode_threshold_pct": "--tight", "day": "--day", "until": "--for", "reason": "--reason", "delta_micros": "--charge or --credit",
	"id": "--id", "from": "--to and --days", "to": "--to and --days",
	"name": "NAME", "grace_period_hours": "--grace", "keys": "--keyset",
	"before": "--before", "keep": "--keep", "principal": "--principal", "accept": "--accept", "list": "--list",
}

// flagOf returns the flag or argument for the invalid field of a *ValidationError, such as "--name" or "--quota
// LABEL=USD". It returns "" for other errors and for fields without a flag.
func flagOf(err error) string {
	var bad *fault.ValidationError
	if !errors.As(err, &bad) {
		return ""
	}
	field, label, _ := strings.Cut(bad.Field, ".")
	name := flags[field]
	switch {
	case name == "--quota" && label != "":
		name += " " + label + "=USD"
	case name == "--model" && label != "":
		name += " " + label + "=ID"
	case field == "price":
		name = "--" + strings.ReplaceAll(label, "_", "-")
	}
	return name
}

// days matches days in the library's form.
var days = regexp.MustCompile(`\b20[0-9]{6}\b`)

// datedError is an error with its days in the printed form.
type datedError struct{ error }

// Error returns the text of the error, with each day such as 20260131 written as 2026-01-31.
func (e datedError) Error() string { return days.ReplaceAllStringFunc(e.error.Error(), dateOf) }

// Unwrap returns the error with days in the library's form.
func (e datedError) Unwrap() error { return e.error }

// withDates wraps an error about an invalid day so that its text has days such as 2026-01-31 instead of
// 20260131. It returns other errors, and nil, as they are.
func withDates(err error) error {
	if slices.Contains([]string{"--day", "--before", "--to and --days"}, flagOf(err)) {
		return datedError{err}
	}
	return err
}

// checkInOrdering returns an error that names the first of labels that is not in ordering, with advice, or nil.
// It skips empty labels.
func checkInOrdering(labels []string, ordering []string) error {
	for _, label := range labels {
		if label != "" && !slices.Contains(ordering, label) {
			return badInput("label %q is not in the ordering (%s): correct it, or add it there with 'orgs put' or 'apps put' and --ordering",
				label, strings.Join(ordering, " → "))
		}
	}
	return nil
}

// sortedKeys returns the keys of a map, sorted, as a new slice.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
