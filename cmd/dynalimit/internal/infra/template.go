package infra

import (
	_ "embed" // the templates
	"regexp"
	"strconv"
	"strings"
)

var (
	//go:embed dynalimit.yaml
	cloudFormation string
	//go:embed dynalimit.tf
	terraform string
)

// CloudFormation returns the embedded template as YAML, with values as the defaults of its parameters. It
// panics for an unknown parameter.
func CloudFormation(values map[string]string) string {
	text := cloudFormation
	for name, value := range values {
		text = fillValue(text, `\n  `+name+`:\n    Type: String\n    Default: `, strconv.Quote(value))
	}
	return text
}

// Terraform returns the embedded configuration as HCL, with values, by CloudFormation's names, as the defaults
// of its variables. It panics for an unknown parameter.
func Terraform(values map[string]string) string {
	text := terraform
	for name, value := range values {
		if value != "true" && value != "false" {
			value = strconv.Quote(value)
		}
		text = fillValue(text, `\nvariable "`+variableName(name)+`" \{\n.*\n.*\n  default +=`, " "+value)
	}
	return text
}

// fillValue returns text with the default of a parameter replaced by value: the rest of the line after the
// first match of pattern. It panics if nothing matches.
func fillValue(text, pattern, value string) string {
	found := regexp.MustCompile(pattern).FindStringIndex(text)
	end := strings.IndexByte(text[found[1]:], '\n')
	return text[:found[1]] + value + text[found[1]+end:]
}

// capital matches a capital inside a name.
var capital = regexp.MustCompile(`(.)([A-Z])`)

// variableName returns the Terraform name of a parameter: LimitsTableName is limits_table_name.
func variableName(name string) string {
	return strings.ToLower(capital.ReplaceAllString(name, "${1}_$2"))
}

// Inline returns the template for CloudFormation, with unchanged defaults, without comments and with minimal
// indentation, because a request is limited to 51,200 bytes.
func Inline() string {
	type level struct{ in, out int }
	levels := []level{{-1, -1}}
	var b strings.Builder
	for line := range strings.Lines(cloudFormation) {
		text := strings.TrimLeft(line, " ")
		if text == "\n" || text[0] == '#' {
			continue
		}
		at := len(line) - len(text)
		for levels[len(levels)-1].in > at {
			levels = levels[:len(levels)-1]
		}
		now := levels[len(levels)-1]
		if now.in != at {
			now = level{at, now.out + 1}
			levels = append(levels, now)
		}
		b.WriteString(strings.Repeat(" ", now.out) + text)
		for ; strings.HasPrefix(text, "- "); text = text[2:] { // the following lines align with the text after the dash
			now = level{now.in + 2, now.out + 2}
			levels = append(levels, now)
		}
	}
	return b.String()
}
