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

// externalLinks is the file that lists every link that leaves the site.
const externalLinks = "external-links.txt"

// readLinks parses an HTML page. ids counts the elements by id, and links lists href and src
// attributes.
func readLinks(text []byte) (ids map[string]int, links []string, err error) {
	document, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	ids = map[string]int{}
	for node := range document.Descendants() {
		for _, attribute := range node.Attr {
			switch attribute.Key {
			case "id":
				ids[attribute.Val]++
			case "href", "src":
				links = append(links, attribute.Val)
			}
		}
	}
	return ids, links, nil
}

// checkLinks returns an error for every link to a missing part of the site, and for ids that a page has twice.
// It adds the file externalLinks with all external links to s.files, without following them.
func (s *site) checkLinks() error {
	external, ids, links := map[string]bool{}, map[string]map[string]int{}, map[string][]string{}
	var problems []error
	for name, text := range s.files {
		if path.Ext(name) == ".html" {
			var err error
			if ids[name], links[name], err = readLinks(text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		for id, n := range ids[name] {
			if n > 1 {
				problems = append(problems, fmt.Errorf("%s has two places named #%s", name, id))
			}
		}
		for _, link := range links[name] {
			u, err := url.Parse(link)
			switch {
			case err == nil && (u.Scheme == "https" || u.Scheme == "http" || u.Scheme == "mailto"):
				external[link] = true
				continue
			case err == nil:
				err = s.checkTarget(name, u, ids)
			}
			if err != nil {
				problems = append(problems, fmt.Errorf("%s links to %q: %w", name, link, err))
			}
		}
	}
	s.files[externalLinks] = []byte(strings.Join(slices.Sorted(maps.Keys(external)), "\n") + "\n")
	return errors.Join(problems...)
}

// checkTarget returns an error unless link u of the page from leads to a file of the site. With a fragment it
// must lead to an id of that page; ids are the ids of each page. An absolute path is an error too.
func (s *site) checkTarget(from string, u *url.URL, ids map[string]map[string]int) error {
	if u.Scheme != "" || u.Host != "" || strings.HasPrefix(u.Path, "/") {
		return errors.New("it is neither a place of the site nor a page of the web")
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
	}
	if _, ok := s.files[to]; !ok {
		return errors.New("there is no such page")
	}
	if u.Fragment != "" && ids[to][u.Fragment] == 0 {
		return errors.New("the page has no such place")
	}
	return nil
}
