package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"html"
	"strings"
)

// declare writes a declaration, in which the package's own types are links, and the
// names that it introduces are anchors. Those of fields and methods follow their type.
func (a *apiPage) declare(decl ast.Decl, typeName string) {
	var source bytes.Buffer
	if f, ok := decl.(*ast.FuncDecl); ok {
		short := *f
		short.Body, short.Doc = nil, nil
		decl = &short
	}
	if err := format.Node(&source, a.set, decl); err != nil {
		fmt.Fprintf(&source, "// %v", err)
	}
	a.WriteString("<pre class=\"chroma declaration\" tabindex=\"0\"><code>" + a.linked(source.String(), typeName) + "</code></pre>\n")
}

// introduced says which names the source of a declaration introduces, by their offsets,
// and where each leads to.
func introduced(source, typeName string) map[int]string {
	const before = "package p\n"
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", before+source, parser.SkipObjectResolution)
	if err != nil || len(file.Decls) == 0 {
		return nil
	}
	at := map[int]string{}
	mark := func(prefix string, names []*ast.Ident) {
		for _, name := range names {
			if name.IsExported() {
				at[set.Position(name.Pos()).Offset-len(before)] = prefix + name.Name
			}
		}
	}
	decl, ok := file.Decls[0].(*ast.GenDecl)
	if !ok {
		return nil
	}
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			mark("", spec.Names)
		case *ast.TypeSpec:
			for _, field := range fieldsOf(spec.Type) {
				mark(typeName+".", field.Names)
			}
		}
	}
	return at
}

func fieldsOf(e ast.Expr) []*ast.Field {
	switch e := e.(type) {
	case *ast.StructType:
		return e.Fields.List
	case *ast.InterfaceType:
		return e.Methods.List
	}
	return nil
}

// linked is the HTML of a declaration. It uses the classes of chroma's style sheet.
func (a *apiPage) linked(source, typeName string) string {
	names := introduced(source, typeName)
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, []byte(source), nil, scanner.ScanComments)
	var b strings.Builder
	written, afterDot := 0, false
	for {
		position, kind, literal := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.SEMICOLON && literal == "\n" {
			continue // that the scanner inserted
		}
		if literal == "" {
			literal = kind.String()
		}
		from := file.Offset(position)
		b.WriteString(html.EscapeString(source[written:from]))
		written = from + len(literal)
		b.WriteString(a.word(kind, literal, names[from], afterDot))
		afterDot = kind == token.PERIOD
	}
	return b.String() + html.EscapeString(source[written:])
}

// word is the HTML of one token.
func (a *apiPage) word(kind token.Token, literal, anchor string, afterDot bool) string {
	text := html.EscapeString(literal)
	switch {
	case anchor != "":
		a.page.heads = append(a.page.heads, heading{level: 5, id: anchor, text: anchor, hidden: true})
		return "<span id=\"" + anchor + "\">" + text + "</span>"
	case kind == token.IDENT && a.names[literal] && !afterDot:
		return "<a href=\"#" + text + "\">" + text + "</a>"
	case kind == token.COMMENT:
		return "<span class=\"c1\">" + text + "</span>"
	case kind == token.STRING || kind == token.CHAR:
		return "<span class=\"s\">" + text + "</span>"
	case kind == token.INT || kind == token.FLOAT:
		return "<span class=\"mi\">" + text + "</span>"
	case kind.IsKeyword():
		return "<span class=\"k\">" + text + "</span>"
	}
	return text
}
