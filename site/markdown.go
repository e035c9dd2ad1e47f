package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown reads what GitHub reads. HTML in a document is shown as the text it is, except
// for comments, which are not shown.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(plainHTML{}, 100))),
)

// renderMarkdown makes a page's title, body and headings of a document.
func (s *site) renderMarkdown(p *page, source []byte) error {
	document := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(anchors{}))))
	err := ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var err error
		switch node := node.(type) {
		case *ast.Heading:
			p.addHeading(node, source)
		case *ast.Text:
			p.addWords(node.Segment.Value(source))
		case *ast.CodeBlock:
			p.addWords(node.Lines().Value(source))
		case *ast.FencedCodeBlock:
			p.addWords(node.Lines().Value(source))
		case *ast.Link:
			err = s.redirect(p, &node.Destination, plainText(node, source))
		case *ast.Image:
			err = s.redirect(p, &node.Destination, "")
		}
		return ast.WalkContinue, err
	})
	if err != nil {
		return err
	}
	if p.title == "" {
		return errors.New("it has no heading of the first level, which would be its title")
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, source, document); err != nil {
		return err
	}
	p.body = flagWord.ReplaceAllString(wrapTables(b.String()), `<code class="flag">$1</code>`)
	return nil
}

func (s *site) redirect(p *page, destination *[]byte, text string) error {
	to, err := s.resolve(p, string(*destination), text)
	*destination = []byte(to)
	return err
}

func (p *page) addHeading(node *ast.Heading, source []byte) {
	title := plainText(node, source)
	id, _ := node.AttributeString("id")
	name, _ := id.([]byte)
	if node.Level == 1 && p.title == "" {
		p.title = title
		return
	}
	p.heads = append(p.heads, heading{level: node.Level, id: string(name), text: title})
}

// addWords adds to the section that a document has come to.
func (p *page) addWords(text []byte) {
	words := &p.words
	if n := len(p.heads); n > 0 {
		words = &p.heads[n-1].words
	}
	*words = append(*words, string(text))
}

// plainText is the text of a node without its marks.
func plainText(node ast.Node, source []byte) string {
	var b strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		switch child := child.(type) {
		case *ast.Text:
			b.Write(child.Segment.Value(source))
			if child.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(child.Value)
		default:
			b.WriteString(plainText(child, source))
		}
	}
	return b.String()
}

// flagWord is a flag in a sentence: a browser would break the line behind its dashes.
var flagWord = regexp.MustCompile(`<code>(-[^<\s]*)</code>`)

// wrapTables lets a table that is wider than the screen scroll by itself.
func wrapTables(body string) string {
	body = strings.ReplaceAll(body, "<table>", `<div class="table"><table>`)
	return strings.ReplaceAll(body, "</table>", "</table></div>")
}

// anchors names headings as GitHub does, whose readers follow the same links.
type anchors map[string]bool

// Generate is called by the parser.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(strings.NewReplacer("`", "", "*", "").Replace(string(value)))) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	id := b.String()
	for i := 1; a[id]; i++ {
		id = b.String() + "-" + strconv.Itoa(i)
	}
	a[id] = true
	return []byte(id)
}

// Put is called by the parser.
func (a anchors) Put(value []byte) { a[string(value)] = true }

// plainHTML renders code in colour, HTML as text, and comments not at all.
type plainHTML struct{}

// RegisterFuncs is called by the renderer.
func (plainHTML) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, renderFence)
	r.Register(ast.KindHTMLBlock, renderHTMLBlock)
	r.Register(ast.KindRawHTML, renderRawHTML)
}

func linesOf(node ast.Node, source []byte) string {
	var b strings.Builder
	for i := range node.Lines().Len() {
		line := node.Lines().At(i)
		b.Write(line.Value(source))
	}
	return b.String()
}

func renderFence(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	fence, _ := node.(*ast.FencedCodeBlock)
	code := linesOf(node, source)
	if string(fence.Language(source)) == "mermaid" {
		diagram, err := drawFlow(code)
		if err != nil {
			return ast.WalkStop, fmt.Errorf("a diagram cannot be drawn: %w", err)
		}
		_, err = w.WriteString(diagram)
		return ast.WalkSkipChildren, err
	}
	_, err := w.WriteString(colourCode(code, string(fence.Language(source))))
	return ast.WalkSkipChildren, err
}

func renderHTMLBlock(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block, _ := node.(*ast.HTMLBlock)
	code := linesOf(node, source)
	if block.HasClosure() {
		code += string(block.ClosureLine.Value(source))
	}
	if isComment(code) {
		return ast.WalkSkipChildren, nil
	}
	_, err := w.WriteString("<p>" + html.EscapeString(code) + "</p>\n")
	return ast.WalkSkipChildren, err
}

// isComment says whether this is one comment and nothing else. GitHub does not show it either.
func isComment(code string) bool {
	inside, opened := strings.CutPrefix(strings.TrimSpace(code), "<!--")
	inside, closed := strings.CutSuffix(inside, "-->")
	return opened && closed && !strings.Contains(inside, "-->")
}

func renderRawHTML(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	raw, _ := node.(*ast.RawHTML)
	var b strings.Builder
	for i := range raw.Segments.Len() {
		segment := raw.Segments.At(i)
		b.Write(segment.Value(source))
	}
	if isComment(b.String()) {
		return ast.WalkSkipChildren, nil
	}
	_, err := w.WriteString(html.EscapeString(b.String()))
	return ast.WalkSkipChildren, err
}
