package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"regexp"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

// navSection is a section of the navigation as one page shows it.
type navSection struct {
	Title string
	Open  bool
	Items []navItem
}

type navItem struct {
	Title, Link string
	Here        bool
}

// shown is what the template of a page gets.
type shown struct {
	Title, Source, Up string
	Front             bool
	Nav               []navSection
	Contents          []navItem
	Body              template.HTML
}

// layOut turns pages into files, and adds what they share.
func (s *site) layOut() error {
	for _, p := range s.pages {
		var b bytes.Buffer
		if err := layout.Execute(&b, s.shown(p)); err != nil {
			return err
		}
		s.files[p.path] = b.Bytes()
	}
	style, err := assets.ReadFile("assets/style.css")
	if err != nil {
		return err
	}
	code, err := codeStyle()
	if err != nil {
		return err
	}
	s.files["style.css"] = append([]byte(code), style...)
	if s.files["search.js"], err = assets.ReadFile("assets/search.js"); err != nil {
		return err
	}
	s.files["search-index.js"], err = s.searchIndex()
	return err
}

func (s *site) shown(p *page) shown {
	v := shown{
		Title: p.title, Source: sourceOf(p.source), Front: p.path == "index.html",
		Up:   strings.Repeat("../", strings.Count(p.path, "/")),
		Body: template.HTML(p.body), //nolint:gosec // made by renderers that escape
	}
	for _, other := range s.pages {
		if title := sectionTitles[other.section]; len(v.Nav) == 0 || v.Nav[len(v.Nav)-1].Title != title {
			v.Nav = append(v.Nav, navSection{Title: title, Open: other.section == p.section})
		}
		label := other.label
		if label == "" {
			label = other.title
		}
		last := &v.Nav[len(v.Nav)-1]
		last.Items = append(last.Items, navItem{label, relative(p.path, other.path), other == p})
	}
	for _, h := range p.heads {
		if h.level <= 3 && !h.hidden {
			v.Contents = append(v.Contents, navItem{Title: h.text, Link: "#" + h.id})
		}
	}
	return v
}

// sourceOf is where the source of a page is published.
func sourceOf(source string) string {
	switch {
	case source == "" || source == ".":
		return repository
	case strings.HasSuffix(source, ".md"):
		return repository + "/blob/main/" + source
	}
	return repository + "/tree/main/" + source
}

// searchIndex is a script, as a page that was opened from a disk may read no other file.
// An entry is a title, the page that it is on, a link, and the words of the section; a page's
// own has no second.
func (s *site) searchIndex() ([]byte, error) {
	entries := [][4]string{}
	for _, p := range s.pages {
		entries = append(entries, [4]string{p.title, "", p.path, distinct(p.words)})
		for _, h := range p.heads {
			entries = append(entries, [4]string{h.text, p.title, p.path + "#" + h.id, distinct(h.words)})
		}
	}
	text, err := json.Marshal(entries)
	return append(append([]byte("var searchIndex = "), text...), ";\n"...), err
}

// aWord is what can be searched for.
var aWord = regexp.MustCompile(`[\pL\pN][\pL\pN_.-]*[\pL\pN]`)

// distinct are the words of some texts, each once.
func distinct(texts []string) string {
	words := aWord.FindAllString(strings.ToLower(strings.Join(texts, " ")), -1)
	slices.Sort(words)
	return strings.Join(slices.Compact(words), " ")
}
