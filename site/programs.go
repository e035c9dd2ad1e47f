package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"html"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// addPrograms adds a page for each program of examples/, with its sources.
func (s *site) addPrograms() error {
	entries, err := os.ReadDir(filepath.Join(s.root, "examples"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		p, err := s.programPage(path.Join("examples", entry.Name()))
		if err != nil {
			return err
		}
		s.pages = append(s.pages, p)
		s.at[p.source] = p.path
	}
	return nil
}

func (s *site) programPage(folder string) (*page, error) {
	name := path.Base(folder)
	p := &page{path: folder + ".html", source: folder, title: "Program " + name, label: name, section: programs}
	entries, err := os.ReadDir(filepath.Join(s.root, filepath.FromSlash(folder)))
	if err != nil {
		return nil, err
	}
	about, sources := "", ""
	for _, entry := range entries {
		file := path.Join(folder, entry.Name())
		if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := s.read(file)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments|parser.PackageClauseOnly)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if text := parsed.Doc.Text(); text != "" {
			prose, err := proseOf(text)
			if err != nil {
				return nil, err
			}
			about += prose
		}
		h := heading{level: 2, id: entry.Name(), text: entry.Name()}
		p.heads = append(p.heads, h)
		sources += fmt.Sprintf("<h2 id=\"%s\">%s</h2>\n", html.EscapeString(h.id), html.EscapeString(h.text)) + colourCode(string(source), "go")
	}
	p.body = fmt.Sprintf("<h1>Program %s</h1>\n%s<p>In a clone of the repository:</p>\n", html.EscapeString(name), about) +
		colourCode("go run ./"+folder+"\n", "sh") + sources
	return p, nil
}
