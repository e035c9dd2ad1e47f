package infra

import (
	"regexp"
	"strconv"
	"strings"
)

// yamlWriter writes a tree as YAML.
type yamlWriter struct{ strings.Builder }

// plain are texts that YAML reads as themselves without quotes.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./,;()' -]*(:[A-Za-z][A-Za-z0-9_./,;()' -]*|::[A-Za-z][A-Za-z0-9]*)*$`)

// words are plain texts that YAML reads as something else.
var words = map[string]bool{"true": true, "false": true, "yes": true, "no": true, "on": true, "off": true, "null": true, "y": true, "n": true}

func yamlText(s string) string {
	if plain.MatchString(s) && !words[strings.ToLower(s)] && !strings.HasSuffix(s, " ") {
		return s
	}
	return strconv.Quote(s)
}

// indent is what each level is indented by.
const indent = "  "

func (w *yamlWriter) mapping(o object, depth int, first string) {
	lead := strings.Repeat(indent, depth)
	for i, f := range o {
		begin := lead
		if i == 0 && first != "" {
			begin = first
		}
		if f.Note != "" && (i > 0 || first == "") {
			w.WriteString(lead + "# " + f.Note + "\n")
		}
		w.WriteString(begin + yamlText(f.Key) + ":")
		w.value(f.Value, depth)
	}
}

// value writes what follows a key, to the end of the line and beyond.
func (w *yamlWriter) value(v any, depth int) {
	switch v := v.(type) {
	case object:
		w.WriteString("\n")
		w.mapping(v, depth+1, "")
	case list:
		w.WriteString("\n")
		w.sequence(v, depth+1)
	default:
		w.WriteString(" " + yamlScalar(v) + "\n")
	}
}

func (w *yamlWriter) sequence(l list, depth int) {
	lead := strings.Repeat(indent, depth)
	for _, v := range l {
		switch v := v.(type) {
		case object:
			if v[0].Note != "" {
				w.WriteString(lead + "# " + v[0].Note + "\n")
			}
			w.mapping(v, depth+1, lead+"- ")
		case list:
			w.WriteString(lead + "-\n")
			w.sequence(v, depth+1)
		default:
			w.WriteString(lead + "- " + yamlScalar(v) + "\n")
		}
	}
}

func yamlScalar(v any) string {
	switch v := v.(type) {
	case code:
		return string(v)
	case string:
		return yamlText(v)
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	default:
		panic("infra: a value that cannot be written") // a bug of ours
	}
}
