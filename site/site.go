package main

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// repository is the address of files without a page of their own.
const repository = "https://github.com/dynalimit/dynalimit"

// The help of each command comes from two files: a golden file of the command line's tests has usages and
// flags, and the source of the help has explanations and examples.
const (
	helpFlags = "cmd/dynalimit/testdata/help/help.txt"
	helpTexts = "cmd/dynalimit/help.txt"
)

// sections are the parts of the navigation, and documents the files of each, in order.
var (
	sections  = []string{"Guides", "Command line", "Budgets", "Design", "Project"}
	documents = [][]string{
		{"README.md", "docs/operations.md", "docs/deploy.md", "docs/administration.md", "docs/permissions.md", "docs/cost.md", "docs/performance.md", "docs/*.md"},
		{},
		{"keeper/README.md", "keeper/docs/*.md", "keeper/CHANGELOG.md"},
		{"docs/design/README.md", "docs/design/*.md", "keeper/docs/design/*.md"},
		{"CONTRIBUTING.md", "RELEASING.md", "CHANGELOG.md", "SECURITY.md"},
	}
)

// page is one page of the site.
type page struct {
	Path, Source string // below the site; the file or folder shown, below the repository
	Title        string
	Section      int
	Body         template.HTML // with exactly one h1
	Heads        []heading
	words        []string // before the first heading, for the search
}

// heading is a target of a page's table of contents and of the search.
type heading struct {
	Level    int
	ID, Text string
	words    []string // of its section, for the search
}

// site is the whole site, in memory until every link is checked.
type site struct {
	repository fs.FS
	pages      []*page           // in the order of the navigation
	files      map[string][]byte // all written files, by path
	at         map[string]string // from a file or folder of the repository to its page
}

// makeSite returns the whole site in memory. It fails for a broken link.
func makeSite(repository fs.FS) (*site, error) {
	s := &site{repository: repository, files: map[string][]byte{}, at: map[string]string{"cmd/dynalimit": "commands/index.html"}}
	for _, step := range []func() error{s.findDocuments, s.renderDocuments, s.addCommands, s.layOut, s.checkLinks} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// findDocuments adds an empty page for each Markdown file to s.pages, and its place to s.at, so that all can
// link to all. A README is also the place of its folder. A file that several patterns match gets one page, in
// the first section.
func (s *site) findDocuments() error {
	for section, patterns := range documents {
		for _, pattern := range patterns {
			names, err := fs.Glob(s.repository, pattern)
			if err != nil {
				return err
			}
			for _, name := range slices.DeleteFunc(names, func(name string) bool { return s.at[name] != "" }) {
				p := &page{Path: documentPath(name), Source: name, Section: section}
				s.at[name], s.pages = p.Path, append(s.pages, p)
				if path.Base(name) == "README.md" {
					s.at[path.Dir(name)] = p.Path
				}
			}
		}
	}
	return nil
}

// renderDocuments renders the Markdown files into their pages.
func (s *site) renderDocuments() error {
	for _, p := range s.pages {
		text, err := fs.ReadFile(s.repository, p.Source)
		if err == nil {
			err = s.render(p, text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Source, err)
		}
	}
	return nil
}

// documentPath returns the path of a Markdown file's page on the site: in lower case, with .html for .md, and
// index for README.
func documentPath(name string) string {
	return strings.Replace(strings.ToLower(strings.TrimSuffix(name, ".md")), "readme", "index", 1) + ".html"
}

// addCommands adds a page for each first word of a command. It has the help of all commands that begin with
// the word, and the flags of each.
func (s *site) addCommands() error {
	flags, err := fs.ReadFile(s.repository, helpFlags)
	if err != nil {
		return err
	}
	explained, err := fs.ReadFile(s.repository, helpTexts)
	if err != nil {
		return err
	}
	details := map[string]string{}
	for _, section := range strings.Split("\n"+string(explained), "\n# ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		details[title] = strings.Trim(text, "\n") + "\n\n"
	}
	parts := strings.Split(string(flags), "\n$ dynalimit ")
	texts := map[string]string{}
	for _, part := range parts[1:] {
		command, text, _ := strings.Cut(part, "\n")
		if about := strings.SplitN(text, "\n\n", 3); len(about) == 3 { // the usage, the explanation, and the flags
			text = about[0] + "\n\n" + about[1] + "\n\n" + details[cmp.Or(command, "dynalimit")] + about[2]
		}
		first, _, more := strings.Cut(command, " ")
		if texts[first] == "" {
			texts[first] = "# dynalimit " + first + "\n\n"
		}
		if more {
			texts[first] += "## " + command + "\n\n"
		}
		texts[first] += "````text\n" + text + "\n````\n\n"
	}
	for first := range texts {
		if first != "" { // the program's own help has them
			texts[first] += "## Flags of every command\n\n````text\n" + parts[0] + "\n````\n"
		}
	}
	for _, first := range slices.Sorted(maps.Keys(texts)) {
		p := &page{Path: "commands/" + cmp.Or(first, "index") + ".html", Source: "cmd/dynalimit", Section: 1}
		if err := s.render(p, []byte(texts[first])); err != nil {
			return err
		}
		s.pages = append(s.pages, p)
	}
	return nil
}

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

// layOut renders the pages into s.files, and adds the style sheet, the scripts and the search
// index.
func (s *site) layOut() error {
	for _, p := range s.pages {
		var b bytes.Buffer
		err := layout.Execute(&b, map[string]any{
			"Page": p, "Pages": s.pages, "Sections": sections, "Up": p.up(),
			"Source": repository + "/blob/main/" + p.Source, "Diagrams": strings.Contains(string(p.Body), "language-mermaid"),
		})
		if err != nil {
			return err
		}
		s.files[p.Path] = b.Bytes()
	}
	for _, name := range []string{"style.css", "search.js", "mermaid/mermaid.tiny.js", "mermaid/start.js", "mermaid/LICENSE"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		s.files[name] = text
	}
	index, err := s.searchIndex()
	s.files["search-index.js"] = index
	return err
}

// up returns the relative path from the folder of a page to the root of the site.
func (p *page) up() string { return strings.Repeat("../", strings.Count(p.Path, "/")) }

// searchIndex returns a script with the entries of the search, because a page opened from a disk may not read
// another file. An entry is a title, its page (empty: the page itself), a link, and the words of the section.
func (s *site) searchIndex() ([]byte, error) {
	entries := [][4]string{}
	for _, p := range s.pages {
		entries = append(entries, [4]string{p.Title, "", p.Path, distinctWords(p.words)})
		for _, h := range p.Heads {
			entries = append(entries, [4]string{h.Text, p.Title, p.Path + "#" + h.ID, distinctWords(h.words)})
		}
	}
	text, err := json.Marshal(entries)
	return fmt.Appendf(nil, "var searchIndex = %s;\n", text), err
}

// searchWord matches a searchable word.
var searchWord = regexp.MustCompile(`[\pL\pN][\pL\pN_.-]*[\pL\pN]`)

// distinctWords returns the searchable words of texts, each once, in lower case and sorted, with spaces between
// them.
func distinctWords(texts []string) string {
	words := searchWord.FindAllString(strings.ToLower(strings.Join(texts, " ")), -1)
	slices.Sort(words)
	return strings.Join(slices.Compact(words), " ")
}
