package alert

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Text returns a message for people: a line for each alert, and one if further alerts follow or some are a day
// old. It escapes &, < and >, so that Slack takes no name for markup.
func Text(m Message) string {
	var b strings.Builder
	for i := range m.Alerts {
		b.WriteString(lineOf(&m.Alerts[i]))
		b.WriteByte('\n')
	}
	if m.Open > len(m.Alerts) {
		fmt.Fprintf(&b, "%d of %d alerts; the others follow.\n", len(m.Alerts), m.Open)
	}
	if m.Late {
		b.WriteString("Some of these alerts are more than a day old: nobody delivered them before.\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// lineOf returns the sentence about an alert in a message for people.
func lineOf(a *aggregator.Alert) string {
	who := cleanName(a.Entity)
	if a.Namespace != "" {
		who = cleanName(a.Namespace) + "/" + who
	}
	what := fmt.Sprintf("has used or reserved %d %% of", a.Percent)
	switch {
	case a.Shadow:
		what = "would have been denied a call by"
	case a.Percent == schema.WholeQuota:
		what = "was denied a call by"
	}
	return fmt.Sprintf("%s %s %s of the %s on %s: %s of %s, until %s", who, what, cleanName(a.Limit), a.Window, cleanName(a.Resource), AmountText(a.Unit, a.Used), AmountText(a.Unit, a.Amount), a.End.UTC().Format("2006-01-02 15:04 UTC"))
}

// mostLetters bounds a name in a text.
const mostLetters = 80

// cleanName returns a name without control characters, cut at 80 letters with … behind them, and with &, < and
// > escaped.
func cleanName(name string) string {
	letters := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, name))
	if len(letters) > mostLetters {
		letters = append(letters[:mostLetters], '…')
	}
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(string(letters))
}

// AmountText formats an amount in millitokens, rounded toward 0: as dollars and cents if the unit is "usd",
// else as whole tokens.
func AmountText(unit string, n int64) string {
	if unit == "usd" {
		cents := n / 10_000_000
		sign := ""
		if n < 0 {
			sign, cents = "-", -cents
		}
		return fmt.Sprintf("%s$%d.%02d", sign, cents/100, cents%100)
	}
	return strconv.FormatInt(n/1000, 10)
}

// messageJSON is the JSON of a message.
type messageJSON struct {
	Type   string      `json:"type"`
	Text   string      `json:"text"`
	Open   int         `json:"open"`
	Late   bool        `json:"late,omitempty"`
	Alerts []alertJSON `json:"alerts"`
}

// alertJSON is the JSON of an alert. Amounts are exact: in dollars if the unit is usd, else in tokens.
type alertJSON struct {
	ID        string    `json:"id"`
	Namespace string    `json:"namespace,omitempty"`
	Entity    string    `json:"entity"`
	Resource  string    `json:"resource"`
	Limit     string    `json:"limit"`
	Percent   int       `json:"percent"`
	Shadow    bool      `json:"shadow,omitempty"`
	Used      string    `json:"used"`
	Amount    string    `json:"amount"`
	Unit      string    `json:"unit,omitempty"`
	Window    string    `json:"window"`
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	At        time.Time `json:"at"`
}

// jsonOf returns a message in the form of its JSON, with its text for people.
func jsonOf(m Message) messageJSON {
	out := messageJSON{Type: "dynalimit.alerts", Text: Text(m), Open: m.Open, Late: m.Late}
	for _, a := range m.Alerts {
		out.Alerts = append(out.Alerts, alertJSON{
			a.ID, a.Namespace, a.Entity, a.Resource, a.Limit, a.Percent, a.Shadow, exactText(a.Unit, a.Used), exactText(a.Unit, a.Amount), a.Unit, a.Window, a.Start, a.End, a.At,
		})
	}
	return out
}

// exactText formats an amount in millitokens: exactly as tokens, such as 12.5. If the unit is "usd", it formats
// thousandths of a micro-dollar as dollars with six digits, such as 40.120000, rounded toward 0.
func exactText(unit string, n int64) string {
	whole, digits := int64(1000), 3
	if unit == "usd" {
		whole, digits = 1_000_000_000, 9
	}
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%0*d", sign, n/whole, digits, n%whole)
	if unit != "usd" {
		return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text[:len(text)-3] // whole micro-dollars
}
