package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// projectFiles are the documents of the root beside the README.
var projectFiles = []string{"CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}

// firstGuides come before the others, in this order.
var firstGuides = []string{"README.md", "docs/operations.md", "docs/administration.md", "docs/permissions.md", "docs/cost.md", "docs/performance.md"}

// findDocuments lists the Markdown that becomes pages, and says where each will be, so
// that others can link to it.
func (s *site) findDocuments() ([]string, error) {
	found := append([]string{"README.md"}, projectFiles...)
	err := filepath.WalkDir(filepath.Join(s.root, "docs"), func(file string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".md") {
			var name string
			name, err = filepath.Rel(s.root, file)
			found = append(found, filepath.ToSlash(name))
		}
		return err
	})
	for _, name := range found {
		s.at[name] = documentPath(name)
		if path.Base(name) == "README.md" && name != "README.md" {
			s.at[path.Dir(name)] = documentPath(name)
		}
	}
	return found, err
}

// documentPath is the page of a Markdown file.
func documentPath(name string) string {
	base := strings.TrimSuffix(name, ".md")
	if path.Base(base) == "README" {
		return path.Join(path.Dir(base), "index.html")
	}
	if !strings.Contains(base, "/") {
		base = strings.ToLower(base)
	}
	return base + ".html"
}

func (s *site) addDocuments(names []string) error {
	for _, name := range names {
		text, err := s.read(name)
		if err != nil {
			return err
		}
		p := &page{path: documentPath(name), source: name, section: guides, rank: len(firstGuides)}
		switch i := slices.Index(firstGuides, name); {
		case i >= 0:
			p.rank = i
		case slices.Contains(projectFiles, name):
			p.section, p.rank = project, slices.Index(projectFiles, name)
		case strings.HasPrefix(name, "docs/design/"):
			p.section, p.rank = design, 1
			if path.Base(name) == "README.md" {
				p.rank = 0
			}
		}
		if name == "README.md" {
			p.label = "Overview"
		}
		if err := s.renderMarkdown(p, text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.pages = append(s.pages, p)
	}
	return nil
}

// resolve turns a link of a document into one of its page. A file that has a page becomes
// that page, and the name of an example the place where it is shown.
func (s *site) resolve(p *page, link, text string) (string, error) {
	if link == "" || strings.HasPrefix(link, "#") || strings.Contains(link, ":") {
		return link, nil
	}
	target, fragment, anchored := strings.Cut(link, "#")
	if anchored {
		fragment = "#" + fragment
	}
	name := path.Join(path.Dir(p.source), target)
	if at := s.names[text]; len(at) == 1 && strings.HasSuffix(name, "_test.go") {
		return relative(p.path, at[0]), nil
	}
	if at, ok := s.at[name]; ok {
		return relative(p.path, at+fragment), nil
	}
	to, err := s.publish(p, name)
	if err != nil {
		return "", fmt.Errorf("the link to %s leads nowhere: %w", link, err)
	}
	return to + fragment, nil
}

// publish is the link to a file that has no page: a picture is taken along, and any other
// is linked where the repository is published.
func (s *site) publish(p *page, name string) (string, error) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", errors.New("it is outside of the repository")
	}
	info, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(name)))
	if err != nil {
		return "", errors.New("there is no such file")
	}
	switch ext := path.Ext(name); {
	case info.IsDir():
		return repository + "/tree/main/" + name, nil
	case ext != ".svg" && ext != ".png":
		return repository + "/blob/main/" + name, nil
	}
	s.files[name], err = s.read(name)
	return relative(p.path, name), err
}
