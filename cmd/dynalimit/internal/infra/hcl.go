package infra

import (
	"regexp"
	"strconv"
	"strings"
)

// hclWriter writes blocks and a tree of values as HCL, in the form of terraform fmt.
type hclWriter struct{ strings.Builder }

// block is a block of HCL: its body are entries and blocks, in their order.
type block struct {
	// Head is what stands before the brace.
	Head string
	Body []any
	// Note is a comment above it.
	Note string
}

func hclText(s string) string { return strconv.Quote(s) }

// block writes a block and what is in it.
func (w *hclWriter) block(b block, depth int) {
	lead := strings.Repeat(indent, depth)
	if b.Note != "" {
		w.WriteString(lead + "# " + b.Note + "\n")
	}
	w.WriteString(lead + b.Head + " {\n")
	var run object
	for i, item := range b.Body {
		switch item := item.(type) {
		case field:
			run = append(run, item)
		case block:
			w.entries(run, depth+1)
			run = nil
			if i > 0 {
				w.WriteString("\n")
			}
			w.block(item, depth+1)
		}
	}
	w.entries(run, depth+1)
	w.WriteString(lead + "}\n")
}

// entries writes attributes. Those on lines one after the other have their equals signs
// below each other.
func (w *hclWriter) entries(o object, depth int) {
	lead := strings.Repeat(indent, depth)
	for begin := 0; begin < len(o); {
		end, width := begin, 0
		for end < len(o) && (end == begin || o[end].Note == "") && !strings.Contains(hclValue(o[end].Value, depth), "\n") {
			width = max(width, len(hclKey(o[end].Key)))
			end++
		}
		if end == begin { // one of many lines
			end++
		}
		for _, f := range o[begin:end] {
			if f.Note != "" {
				w.WriteString(lead + "# " + f.Note + "\n")
			}
			key := hclKey(f.Key)
			w.WriteString(lead + key + strings.Repeat(" ", max(0, width-len(key))) + " = " + hclValue(f.Value, depth) + "\n")
		}
		begin = end
	}
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func hclKey(key string) string {
	if identifier.MatchString(key) && key != "for" { // which begins an expression
		return key
	}
	return hclText(key)
}

// hclValue is a value, of which all lines but the first are indented.
func hclValue(v any, depth int) string {
	lead := strings.Repeat(indent, depth)
	switch v := v.(type) {
	case object:
		var w hclWriter
		w.entries(v, depth+1)
		return "{\n" + w.String() + lead + "}"
	case list:
		return hclList(v, depth)
	case code:
		return strings.ReplaceAll(string(v), "\n", "\n"+lead)
	case string:
		return hclText(v)
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	default:
		panic("infra: a value that cannot be written") // a bug of ours
	}
}

// widest is how wide a list may be on one line.
const widest = 100

func hclList(l list, depth int) string {
	values := make([]string, len(l))
	for i, v := range l {
		values[i] = hclValue(v, depth+1)
		if o, ok := v.(object); ok && o[0].Note != "" {
			o = append(object{{Key: o[0].Key, Value: o[0].Value}}, o[1:]...)
			values[i] = "# " + l[i].(object)[0].Note + "\n" + strings.Repeat(indent, depth+1) + hclValue(o, depth+1)
		}
	}
	line := "[" + strings.Join(values, ", ") + "]"
	if len(line) <= widest && !strings.Contains(line, "\n") {
		return line
	}
	inner := strings.Repeat(indent, depth+1)
	return "[\n" + inner + strings.Join(values, ",\n"+inner) + ",\n" + strings.Repeat(indent, depth) + "]"
}
