package dynalimit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// limitText is a Limit as a person writes it: what has its default is left out.
type limitText struct {
	Name         string `json:"name"`
	Capacity     int64  `json:"capacity"`
	Burst        int64  `json:"burst,omitempty"`
	RefillAmount int64  `json:"refill_amount,omitempty"`
	Period       string `json:"period"`
}

// MarshalJSON writes a limit as a person would:
//
//	{"name":"rpm","capacity":600,"burst":900,"period":"1m"}
//
// Burst and RefillAmount are left out where they are the Capacity.
func (l Limit) MarshalJSON() ([]byte, error) {
	l = l.withDefaults()
	t := limitText{Name: l.Name, Capacity: l.Capacity, Period: periodText(l.RefillPeriod)}
	if l.Burst != l.Capacity {
		t.Burst = l.Burst
	}
	if l.RefillAmount != l.Capacity {
		t.RefillAmount = l.RefillAmount
	}
	return json.Marshal(t)
}

// UnmarshalJSON reads what MarshalJSON writes; the period is a time.Duration's text,
// such as "1s", "90s", "1m" or "24h". It refuses fields that it does not know; the
// values are checked where the limit is used.
func (l *Limit) UnmarshalJSON(data []byte) error {
	var t limitText
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return fmt.Errorf(`dynalimit: limit: %w; write {"name":"rpm","capacity":600,"period":"1m"}, with burst and refill_amount where they differ`, err)
	}
	period, err := time.ParseDuration(t.Period)
	if err != nil {
		return invalid("period", "is %q for limit %q; write a duration such as \"1s\", \"1m\" or \"24h\"", t.Period, t.Name)
	}
	*l = Limit{Name: t.Name, Capacity: t.Capacity, Burst: t.Burst, RefillAmount: t.RefillAmount, RefillPeriod: period}.withDefaults()
	return nil
}

// periodText is a duration without the parts that are 0: "1m", not "1m0s".
func periodText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// String is the policy as it is stored; empty for none.
func (p UnavailablePolicy) String() string { return string(p) }

// UnmarshalText reads "block", "allow" or "local"; empty is the default of where it
// is used.
func (p *UnavailablePolicy) UnmarshalText(text []byte) error {
	return unmarshalName(p, text, "on_unavailable", Block, Allow, Local)
}

// String is the mode's name; empty for none.
func (m CascadeMode) String() string { return string(m) }

// UnmarshalText reads "parallel" or "transaction"; empty is the default of where it
// is used.
func (m *CascadeMode) UnmarshalText(text []byte) error {
	return unmarshalName(m, text, "cascade", CascadeParallel, CascadeTransaction)
}

// String is the level's name; empty for none.
func (l ConfigLevel) String() string { return string(l) }

// unmarshalName sets one of the names, or none.
func unmarshalName[T ~string](to *T, text []byte, field string, names ...T) error {
	name := T(text)
	if name != "" && !slices.Contains(names, name) {
		return invalid(field, "is %q; write one of %q", name, names)
	}
	*to = name
	return nil
}
