package main

import (
	"go/doc/comment"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// proseOf is a comment whose links to packages stay text.
func proseOf(text string) (string, error) {
	printer := comment.Printer{DocLinkURL: func(*comment.DocLink) string { return "" }, HeadingLevel: 2}
	return closed(printer.HTML(new(comment.Parser).Parse(text)))
}

// closed ends every paragraph and item, which the printer of comments leaves to the reader.
func closed(text []byte) (string, error) {
	body := &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body}
	nodes, err := html.ParseFragment(strings.NewReader(string(text)), body)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, node := range nodes {
		if err := html.Render(&b, node); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}
