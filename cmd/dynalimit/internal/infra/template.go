package infra

import (
	_ "embed" // the template
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

// CloudFormation is the template as YAML, with values of parameters as their defaults.
func CloudFormation(values map[string]string) string {
	text := cloudFormation
	for name, value := range values {
		text = fill(text, `\n  `+name+`:\n    Type: String\n    Default: `, strconv.Quote(value))
	}
	return text
}

// Terraform is a configuration as HCL that deploys the template as a stack, with values of
// parameters as the template's defaults.
func Terraform(values map[string]string) string {
	body := strings.NewReplacer("${", "$${", "%{", "%%{").Replace(inline(CloudFormation(values)))
	return strings.Replace(terraform, "<<TEMPLATE\n", "<<TEMPLATE\n"+body, 1)
}

// fill replaces the rest of the line that follows a pattern.
func fill(text, pattern, value string) string {
	found := regexp.MustCompile(pattern).FindStringIndex(text)
	end := strings.IndexByte(text[found[1]:], '\n')
	return text[:found[1]] + value + text[found[1]+end:]
}

// Inline is the template for CloudFormation without comments, and with as little indentation
// as YAML needs: a request takes 51,200 bytes.
func Inline() string { return inline(cloudFormation) }

func inline(template string) string {
	type level struct{ in, out int }
	levels := []level{{-1, -1}}
	var b strings.Builder
	for line := range strings.Lines(template) {
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
		for ; strings.HasPrefix(text, "- "); text = text[2:] { // what follows aligns with what is behind the dash
			now = level{now.in + 2, now.out + 2}
			levels = append(levels, now)
		}
	}
	return b.String()
}
