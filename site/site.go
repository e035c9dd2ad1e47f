package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// repository is where the files are that the site does not show.
const repository = "https://github.com/dynalimit/dynalimit"

// externalLinks is the file that lists every link that leaves the site.
const externalLinks = "external-links.txt"

// section is a part of the navigation.
type section int

const (
	guides section = iota
	commandLine
	packages
	programs
	design
	project
)

var sectionTitles = [...]string{
	guides: "Guides", commandLine: "Command line", packages: "Packages", programs: "Programs", design: "Design", project: "Project",
}

// page is one page of the site.
type page struct {
	path    string // below the site, such as docs/cost.html
	source  string // the file or folder that it shows, below the repository
	title   string
	label   string // in the navigation; empty for the title
	section section
	rank    int    // within its section; pages of one rank go by path
	body    string // HTML, with exactly one h1
	heads   []heading
	words   []string // of what stands before the first heading, for the search
}

// heading is what the contents of a page, and the search, lead to.
type heading struct {
	level  int
	id     string
	text   string   // plain
	hidden bool     // from the contents, which would be too long; the search finds it
	words  []string // of its section, for the search
}

// site is the whole of it, in memory until every link was checked.
type site struct {
	root  string            // the repository
	pages []*page           // in the order of the navigation
	files map[string][]byte // everything that is written, by its path
	links links
	at    map[string]string   // from a file or folder of the repository to the page that shows it
	names map[string][]string // from the name of an example function to the pages and anchors that show it
}

// makeSite makes the site of a repository. help answers what a command line prints for its
// arguments and --help.
func makeSite(root string, help func(args ...string) (string, error)) (*site, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	s := &site{root: root, files: map[string][]byte{}, at: map[string]string{}, names: map[string][]string{}}
	documents, err := s.findDocuments()
	if err != nil {
		return nil, err
	}
	if err := s.addPackages(); err != nil {
		return nil, err
	}
	if err := s.addPrograms(); err != nil {
		return nil, err
	}
	if err := s.addCommands(help); err != nil {
		return nil, err
	}
	if err := s.addDocuments(documents); err != nil { // last, as they link to all others
		return nil, err
	}
	slices.SortFunc(s.pages, func(a, b *page) int {
		return cmp.Or(cmp.Compare(a.section, b.section), cmp.Compare(a.rank, b.rank), cmp.Compare(a.path, b.path))
	})
	if err := s.layOut(); err != nil {
		return nil, err
	}
	return s, s.check()
}

// relative is the link from one path of the site to another.
func relative(from, to string) string {
	target, fragment, anchored := strings.Cut(to, "#")
	link := path.Base(target)
	if target != from {
		up, err := filepath.Rel(path.Dir(from), target)
		if err == nil {
			link = filepath.ToSlash(up)
		}
	}
	if anchored {
		if target == from {
			return "#" + fragment
		}
		link += "#" + fragment
	}
	return link
}

// write puts the site into folder out, where it replaces a site and nothing else.
func (s *site) write(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, externalLinks)); len(entries) > 0 && err != nil {
		return fmt.Errorf("%s holds something that is no site: name another folder with -out", out)
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for name, text := range s.files {
		file := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read is a file of the repository, with the line ends that every system has here.
func (s *site) read(name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(name)))
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), err
}
