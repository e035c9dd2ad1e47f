package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"html"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// module is the path of the root module, whose packages are documented.
const module = "github.com/dynalimit/dynalimit"

// addPackages adds a page for every package that users can import, and one that lists them.
func (s *site) addPackages() error {
	folders, err := publicFolders(s.root)
	if err != nil {
		return err
	}
	index := &page{path: "api/index.html", source: "", title: "Packages", label: "All packages", section: packages}
	var list strings.Builder
	list.WriteString("<h1>Packages</h1>\n<dl>\n")
	for _, folder := range folders {
		s.at[folder] = packagePath(folder)
	}
	for _, folder := range folders {
		p, synopsis, err := s.packagePage(folder)
		if err != nil {
			return fmt.Errorf("package %s: %w", folder, err)
		}
		s.pages = append(s.pages, p)
		fmt.Fprintf(&list, "<dt><a href=\"%s\"><code>%s</code></a></dt><dd>%s</dd>\n",
			relative(index.path, p.path), html.EscapeString(path.Join(module, folder)), html.EscapeString(synopsis))
	}
	index.body = list.String() + "</dl>\n"
	s.pages = append(s.pages, index)
	return nil
}

func packagePath(folder string) string {
	if folder == "." {
		return "api/dynalimit.html"
	}
	return "api/" + folder + ".html"
}

// publicFolders are the folders of the root module whose packages others can import.
func publicFolders(root string) (folders []string, err error) {
	err = filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		name := entry.Name()
		_, foreign := os.Stat(filepath.Join(dir, "go.mod"))
		if dir != root && (foreign == nil || name == "internal" || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
			return filepath.SkipDir
		}
		pkg, err := build.ImportDir(dir, 0)
		if err != nil || pkg.Name == "main" {
			return nil //nolint:nilerr // a folder without a package
		}
		folder, err := filepath.Rel(root, dir)
		folders = append(folders, filepath.ToSlash(folder))
		return err
	})
	return folders, err
}

// apiPage writes the documentation of one package.
type apiPage struct {
	bytes.Buffer
	page    *page
	pkg     *doc.Package
	set     *token.FileSet
	printer *comment.Printer
	parser  *comment.Parser
	names   map[string]bool // exported, of the package
	failed  error           // what could not be written
}

func (s *site) packagePage(folder string) (*page, string, error) {
	set := token.NewFileSet()
	files, err := parseFolder(set, filepath.Join(s.root, filepath.FromSlash(folder)))
	if err != nil {
		return nil, "", err
	}
	pkg, err := doc.NewFromFiles(set, files, path.Join(module, folder))
	if err != nil {
		return nil, "", err
	}
	a := &apiPage{page: &page{path: packagePath(folder), source: folder, section: packages, rank: 1}, pkg: pkg, set: set}
	a.page.title, a.page.label = "Package "+pkg.Name, pkg.Name
	a.printer = pkg.Printer()
	a.printer.HeadingLevel = 3
	a.printer.HeadingID = func(h *comment.Heading) string { return "doc-" + h.DefaultID() }
	a.printer.DocLinkURL = func(link *comment.DocLink) string { return s.docLink(a.page, link) }
	a.parser = pkg.Parser()
	a.names = map[string]bool{}
	a.write()
	s.collectExamples(a)
	a.page.body = a.String()
	return a.page, pkg.Synopsis(pkg.Doc), a.failed
}

func parseFolder(set *token.FileSet, dir string) (files []*ast.File, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if entry.IsDir() || !strings.HasSuffix(entry.Name(), ".go") {
			continue
		}
		file, err := parser.ParseFile(set, filepath.Join(dir, entry.Name()), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// docLink leads to names of this repository. Others stay text: the site names no
// server of package documentation.
func (s *site) docLink(p *page, link *comment.DocLink) string {
	anchor := link.Name
	if link.Recv != "" {
		anchor = link.Recv + "." + link.Name
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	if link.ImportPath == "" {
		return anchor
	}
	folder := strings.TrimPrefix(strings.TrimPrefix(link.ImportPath, module), "/")
	if folder == "" {
		folder = "."
	}
	at, ok := s.at[folder]
	if !ok || link.ImportPath != path.Join(module, folder) {
		return ""
	}
	return relative(p.path, at+anchor)
}

func (a *apiPage) write() {
	for _, t := range a.pkg.Types {
		a.names[t.Name] = true
	}
	fmt.Fprintf(a, "<h1>Package %s</h1>\n<pre class=\"chroma\"><code>import &quot;%s&quot;</code></pre>\n", a.pkg.Name, html.EscapeString(a.pkg.ImportPath))
	a.comment(a.pkg.Doc)
	a.examples(a.pkg.Examples, "")
	a.index()
	a.values("Constants", "constants", a.pkg.Consts)
	a.values("Variables", "variables", a.pkg.Vars)
	if len(a.pkg.Funcs) > 0 {
		a.heading(2, "functions", "Functions", true)
	}
	for _, f := range a.pkg.Funcs {
		a.function(f, 3)
	}
	if len(a.pkg.Types) > 0 {
		a.heading(2, "types", "Types", true)
	}
	for _, t := range a.pkg.Types {
		a.typ(t)
	}
}

func (a *apiPage) heading(level int, id, text string, listed bool) {
	a.page.heads = append(a.page.heads, heading{level: level, id: id, text: text, hidden: !listed})
	fmt.Fprintf(a, "<h%d id=\"%s\">%s</h%d>\n", level, html.EscapeString(id), html.EscapeString(text), level)
}

func (a *apiPage) comment(text string) {
	if text == "" {
		return
	}
	prose, err := closed(a.printer.HTML(a.parser.Parse(text)))
	a.failed = errors.Join(a.failed, err)
	a.WriteString(prose)
}

func (a *apiPage) values(title, id string, values []*doc.Value) {
	if len(values) == 0 {
		return
	}
	a.heading(2, id, title, true)
	for _, v := range values {
		a.value(v)
	}
}

func (a *apiPage) value(v *doc.Value) {
	a.declare(v.Decl, "")
	a.comment(v.Doc)
}

func (a *apiPage) function(f *doc.Func, level int) {
	id, title := f.Name, "func "+f.Name
	if f.Recv != "" {
		id = strings.TrimPrefix(f.Recv, "*") + "." + f.Name
		title = "func (" + f.Recv + ") " + f.Name
	}
	a.heading(level, id, title, false)
	a.declare(f.Decl, "")
	a.comment(f.Doc)
	a.examples(f.Examples, id)
}

func (a *apiPage) typ(t *doc.Type) {
	a.heading(3, t.Name, "type "+t.Name, true)
	a.declare(t.Decl, t.Name)
	a.comment(t.Doc)
	a.examples(t.Examples, t.Name)
	for _, values := range [][]*doc.Value{t.Consts, t.Vars} {
		for _, v := range values {
			a.value(v)
		}
	}
	for _, functions := range [][]*doc.Func{t.Funcs, t.Methods} {
		for _, f := range functions {
			a.function(f, 4)
		}
	}
}

// index lists every name with a link to it.
func (a *apiPage) index() {
	a.heading(2, "index", "Index", true)
	a.WriteString("<ul class=\"index\">\n")
	entry := func(id, text string) {
		fmt.Fprintf(a, "<li><a href=\"#%s\"><code>%s</code></a>", id, html.EscapeString(text))
	}
	if len(a.pkg.Consts) > 0 {
		a.WriteString("<li><a href=\"#constants\">Constants</a></li>\n")
	}
	if len(a.pkg.Vars) > 0 {
		a.WriteString("<li><a href=\"#variables\">Variables</a></li>\n")
	}
	for _, f := range a.pkg.Funcs {
		entry(f.Name, "func "+f.Name)
		a.WriteString("</li>\n")
	}
	for _, t := range a.pkg.Types {
		entry(t.Name, "type "+t.Name)
		if len(t.Funcs)+len(t.Methods) > 0 {
			a.WriteString("\n<ul>\n")
			for _, f := range t.Funcs {
				entry(f.Name, f.Name)
				a.WriteString("</li>\n")
			}
			for _, f := range t.Methods {
				entry(t.Name+"."+f.Name, f.Name)
				a.WriteString("</li>\n")
			}
			a.WriteString("</ul>")
		}
		a.WriteString("</li>\n")
	}
	a.WriteString("</ul>\n")
}
