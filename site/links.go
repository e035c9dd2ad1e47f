package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// links counts those between pages, and has those that leave the site.
type links struct {
	internal int
	external map[string]bool
}

// anatomy is what matters of a page for links.
type anatomy struct {
	ids   map[string]bool
	links []string
	twice []string // ids that two elements have
}

// dissect reads a page as a browser does.
func dissect(text []byte) (anatomy, error) {
	document, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		return anatomy{}, err
	}
	a := anatomy{ids: map[string]bool{}}
	for node := range document.Descendants() {
		for _, attribute := range node.Attr {
			switch attribute.Key {
			case "id":
				if a.ids[attribute.Val] {
					a.twice = append(a.twice, attribute.Val)
				}
				a.ids[attribute.Val] = true
			case "href", "src":
				a.links = append(a.links, attribute.Val)
			}
		}
	}
	return a, nil
}

// check fails for every link that leads nowhere on the site. Links to elsewhere are
// collected, and not followed.
func (s *site) check() error {
	s.links.external = map[string]bool{}
	pages := map[string]anatomy{}
	var problems []error
	for name, text := range s.files {
		if path.Ext(name) != ".html" {
			continue
		}
		a, err := dissect(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		pages[name] = a
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		for _, id := range pages[name].twice {
			problems = append(problems, fmt.Errorf("%s has two places named #%s", name, id))
		}
		for _, link := range pages[name].links {
			if err := s.follow(name, link, pages); err != nil {
				problems = append(problems, fmt.Errorf("%s links to %q: %w", name, link, err))
			}
		}
	}
	list := strings.Join(slices.Sorted(maps.Keys(s.links.external)), "\n") + "\n"
	s.files[externalLinks] = []byte(list)
	return errors.Join(problems...)
}

func (s *site) follow(from, link string, pages map[string]anatomy) error {
	u, err := url.Parse(link)
	if err != nil {
		return err
	}
	switch u.Scheme {
	case "https", "http", "mailto":
		s.links.external[link] = true
		return nil
	case "":
		s.links.internal++
		return s.reach(from, u, pages)
	}
	if link == "data:," { // no icon
		return nil
	}
	return errors.New("it is neither a place of the site nor a page of the web")
}

func (s *site) reach(from string, u *url.URL, pages map[string]anatomy) error {
	if u.Host != "" || strings.HasPrefix(u.Path, "/") {
		return errors.New("it is neither a place of the site nor a page of the web")
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
	}
	if _, ok := s.files[to]; !ok {
		return errors.New("there is no such page")
	}
	if u.Fragment != "" && !pages[to].ids[u.Fragment] {
		return errors.New("the page has no such place")
	}
	return nil
}
