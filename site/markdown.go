package main

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"golang.org/x/net/html"
)

// markdown reads GitHub's dialect.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// render converts Markdown to p.Body, and sets the title, headings and words of p. It rewrites relative links,
// and adds images to s.files. It fails for broken links and for HTML.
func (s *site) render(p *page, source []byte) error {
	document := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	err := ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		var err error
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.HTMLBlock:
			code := string(node.Lines().Value(source))
			if node.HasClosure() {
				code += string(node.ClosureLine.Value(source))
			}
			err = checkHTML(code)
		case *ast.RawHTML:
			err = checkHTML(string(node.Segments.Value(source)))
		case *ast.Link:
			err = s.rewriteLink(p, &node.Destination)
		case *ast.Image:
			err = s.addImage(p, string(node.Destination))
		}
		return ast.WalkContinue, err
	})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, source, document); err != nil {
		return err
	}
	// A table or code that is wider than the screen scrolls by itself, and no line ends
	// behind the dashes of a flag.
	body := strings.NewReplacer("<table>", `<div class="table"><table>`, "</table>", "</table></div>", "<pre>", `<pre tabindex="0">`).Replace(b.String())
	p.Body = template.HTML(flagWord.ReplaceAllString(body, `<code class="flag">$1</code>`)) //nolint:gosec // made by a renderer that escapes
	return p.setOutline()
}

// addImage adds the file of an image to s.files, at a path relative to the page as in the repository. It fails
// for a missing file.
func (s *site) addImage(p *page, to string) error {
	file, err := fs.ReadFile(s.repository, path.Join(path.Dir(p.Source), to))
	if err != nil {
		return fmt.Errorf("the link to %s leads nowhere", to)
	}
	s.files[path.Join(path.Dir(p.Path), to)] = file
	return nil
}

// flagWord is a flag in a sentence.
var flagWord = regexp.MustCompile(`<code>(-[^<\s]*)</code>`)

// comments matches HTML comments only.
var comments = regexp.MustCompile(`^\s*(<!--(?s:.*?)-->\s*)*$`)

// checkHTML returns an error for HTML other than comments. GitHub shows HTML, but this renderer omits it.
func checkHTML(code string) error {
	if comments.MatchString(code) {
		return nil
	}
	return fmt.Errorf("write Markdown in place of the HTML %q", strings.TrimSpace(code))
}

// rewriteLink rewrites a relative link of page p: to the page of a file, or to the file on GitHub. Other links
// stay. It fails for a missing file.
func (s *site) rewriteLink(p *page, destination *[]byte) error {
	target, fragment, _ := bytes.Cut(*destination, []byte("#"))
	if len(target) == 0 || bytes.Contains(*destination, []byte(":")) {
		return nil
	}
	name := path.Join(path.Dir(p.Source), string(target))
	to := p.up() + s.at[name]
	if s.at[name] == "" { // a file without a page is shown at the published repository
		if _, err := fs.Stat(s.repository, name); err != nil {
			return fmt.Errorf("the link to %s leads nowhere: %w", *destination, err)
		}
		to = repository + "/blob/main/" + name
	}
	if len(fragment) > 0 {
		to += "#" + string(fragment)
	}
	*destination = []byte(to)
	return nil
}

// setOutline sets p.Title, p.Heads and the words below each heading from p.Body. It fails without a title.
func (p *page) setOutline() error {
	document, err := html.Parse(strings.NewReader(string(p.Body)))
	if err != nil {
		return err
	}
	words := &p.words
	for node := range document.Descendants() {
		level := strings.Index("h1h2h3h4h5h6", node.Data)/2 + 1
		switch {
		case node.Type == html.TextNode:
			*words = append(*words, node.Data)
		case node.Type != html.ElementNode || len(node.Data) != 2 || node.Data[0] != 'h' || node.Data == "hr":
		case level == 1 && p.Title == "":
			p.Title = textOf(node)
		default:
			p.Heads = append(p.Heads, heading{Level: level, ID: node.Attr[0].Val, Text: textOf(node)})
			words = &p.Heads[len(p.Heads)-1].words
		}
	}
	if p.Title == "" {
		return errors.New("it has no heading of the first level, which would be its title")
	}
	return nil
}

// textOf returns the text below a node, with spaces for line breaks.
func textOf(node *html.Node) string {
	var b strings.Builder
	for child := range node.Descendants() {
		if child.Type == html.TextNode {
			b.WriteString(strings.ReplaceAll(child.Data, "\n", " "))
		}
	}
	return b.String()
}

// anchors names headings as GitHub does, because readers on GitHub follow the same links.
type anchors map[string]bool

// Generate implements parser.IDs. It returns GitHub's id for a heading, and numbers repeated ones.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	id := name
	for i := 1; a[id]; i++ {
		id = name + "-" + strconv.Itoa(i)
	}
	a[id] = true
	return []byte(id)
}

// Put implements parser.IDs. It marks an id as used.
func (a anchors) Put(value []byte) { a[string(value)] = true }
