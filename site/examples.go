package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/printer"
	"html"
	"regexp"
	"strings"
)

// exampleID is the anchor of an example of a name; empty is the package.
func exampleID(of string, e *doc.Example) string {
	id := "example"
	if of != "" {
		id += "-" + of
	}
	if e.Suffix != "" {
		id += "-" + e.Suffix
	}
	return id
}

// examples writes the examples of a name, with what the tests saw them print.
func (a *apiPage) examples(list []*doc.Example, of string) {
	for _, e := range list {
		id, title := exampleID(of, e), "Example"
		if e.Suffix != "" {
			title += " (" + strings.ReplaceAll(e.Suffix, "_", " ") + ")"
		}
		a.page.heads = append(a.page.heads, heading{level: 5, id: id, text: strings.TrimSpace(title + " " + of), hidden: true})
		fmt.Fprintf(a, "<details class=\"example\" id=\"%s\"><summary>%s</summary>\n", id, html.EscapeString(title))
		a.comment(e.Doc)
		a.WriteString(colourCode(a.exampleCode(e), "go"))
		switch {
		case e.Output != "" && e.Unordered:
			a.WriteString("<p>Output, in any order:</p>\n")
		case e.Output != "":
			a.WriteString("<p>Output:</p>\n")
		}
		if e.Output != "" {
			a.WriteString("<pre class=\"output\" tabindex=\"0\"><code>" + html.EscapeString(e.Output) + "</code></pre>\n")
		}
		a.WriteString("</details>\n")
	}
}

// exampleCode is the body of an example without the comment that has its output, or the
// whole file where an example has declarations of its own.
func (a *apiPage) exampleCode(e *doc.Example) string {
	block, inside := e.Code.(*ast.BlockStmt)
	var b bytes.Buffer
	if err := format.Node(&b, a.set, &printer.CommentedNode{Node: e.Code, Comments: e.Comments}); err != nil {
		return "// " + err.Error() + "\n"
	}
	code := b.String()
	if inside && block != nil {
		code = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(code), "{"), "}")
		lines := strings.Split(strings.Trim(code, "\n"), "\n")
		for i, line := range lines {
			lines[i] = strings.TrimPrefix(line, "\t")
		}
		code = strings.Join(lines, "\n")
	}
	if at := outputComment.FindStringIndex(code); at != nil && (e.Output != "" || e.EmptyOutput) {
		code = code[:at[0]]
	}
	return strings.TrimRight(code, " \t\n") + "\n"
}

// outputComment begins what an example prints, at its end.
var outputComment = regexp.MustCompile(`(?im)^[ \t]*//[ \t]*(unordered )?output:`)

// collectExamples remembers where the functions of examples are shown, as documents
// name them.
func (s *site) collectExamples(a *apiPage) {
	add := func(list []*doc.Example, of string) {
		for _, e := range list {
			name := "Example" + e.Name
			s.names[name] = append(s.names[name], a.page.path+"#"+exampleID(of, e))
		}
	}
	add(a.pkg.Examples, "")
	for _, f := range a.pkg.Funcs {
		add(f.Examples, f.Name)
	}
	for _, t := range a.pkg.Types {
		add(t.Examples, t.Name)
		for _, f := range t.Funcs {
			add(f.Examples, f.Name)
		}
		for _, f := range t.Methods {
			add(f.Examples, t.Name+"."+f.Name)
		}
	}
}
