package main

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

// realHelp asks the command line itself, which is built once.
var realHelp = sync.OnceValues(func() (func(...string) (string, error), error) {
	dir, err := os.MkdirTemp("", "site-test")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	texts := map[string]string{}
	command, err := buildCommand(context.Background(), "..", dir)
	if err != nil {
		return nil, err
	}
	ask := runHelp(context.Background(), command)
	overview, err := ask()
	texts[""] = overview
	nouns := nounsIn(overview)
	for i := 0; i < len(nouns) && err == nil; i++ {
		texts[nouns[i]], err = ask(strings.Fields(nouns[i])...)
		nouns = append(nouns, verbsIn(texts[nouns[i]])...)
	}
	return func(args ...string) (string, error) { return texts[strings.Join(args, " ")], nil }, err
})

// realSite is the site of this repository.
var realSite = sync.OnceValues(func() (*site, error) {
	help, err := realHelp()
	if err != nil {
		return nil, err
	}
	return makeSite("..", help)
})

func theSite(t *testing.T) *site {
	t.Helper()
	s, err := realSite()
	require.NoError(t, err)
	return s
}

// elements are the elements of a page.
func elements(t *testing.T, text []byte) (all []*html.Node) {
	t.Helper()
	document, err := html.Parse(strings.NewReader(string(text)))
	require.NoError(t, err)
	for node := range document.Descendants() {
		if node.Type == html.ElementNode {
			all = append(all, node)
		}
	}
	return all
}

func attribute(node *html.Node, name string) string {
	for _, a := range node.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// void are the elements that have no end.
var void = []string{"meta", "link", "input", "img", "br", "hr"}

// assertNested reads the tags one by one, as a parser would mend what is wrong.
func assertNested(t *testing.T, name string, text []byte) {
	t.Helper()
	var open []string
	for tokens := html.NewTokenizer(strings.NewReader(string(text))); tokens.Next() != html.ErrorToken; {
		switch token := tokens.Token(); token.Type {
		case html.StartTagToken:
			if !slices.Contains(void, token.Data) {
				open = append(open, token.Data)
			}
		case html.EndTagToken:
			require.NotEmpty(t, open, "%s ends <%s>, which nothing began", name, token.Data)
			require.Equal(t, open[len(open)-1], token.Data, "%s ends an element before what is in it", name)
			open = open[:len(open)-1]
		}
	}
	require.Empty(t, open, "%s does not end", name)
}

func TestEveryPageIsWhole(t *testing.T) {
	s := theSite(t)
	assert.Greater(t, len(s.pages), 35)
	titles := map[string]string{}
	for _, p := range s.pages {
		text := s.files[p.path]
		assertNested(t, p.path, text)
		count := map[string]int{}
		for _, node := range elements(t, text) {
			count[node.Data]++
			if node.Data == "title" && node.Parent.Data == "head" {
				title := node.FirstChild.Data
				assert.Empty(t, titles[title], "%s and %s have one title", p.path, titles[title])
				titles[title] = p.path
			}
		}
		assert.Equal(t, 1, count["h1"], p.path)
		assert.Equal(t, 1, count["main"], p.path)
		assert.Equal(t, 2, count["script"], p.path)
		assert.NotContains(t, string(text), "ZgotmplZ", "%s: the template refused something", p.path)
	}
}

func TestNothingIsFetchedFromElsewhere(t *testing.T) {
	s := theSite(t)
	for _, p := range s.pages {
		for _, node := range elements(t, s.files[p.path]) {
			if node.Data == "a" {
				continue
			}
			for _, name := range []string{"src", "href", "srcset"} {
				assert.NotContains(t, attribute(node, name), "//", "<%s> of %s", node.Data, p.path)
			}
		}
	}
	for _, name := range []string{"style.css", "search.js"} {
		assert.NotRegexp(t, `@import|url\(|https?:`, string(s.files[name]), name)
	}
}

func TestNothingOfThisMachineIsOnThePages(t *testing.T) {
	s := theSite(t)
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	for name, text := range s.files {
		assert.NotContains(t, string(text), s.root+"/", name)
		assert.NotContains(t, string(text), home+"/", name)
		assert.NotContains(t, string(text), os.TempDir()+"/site", name)
		if len(host) > 5 {
			assert.NotContains(t, string(text), host, name)
		}
	}
}

func TestTwoBuildsAreEqual(t *testing.T) {
	s := theSite(t)
	help, err := realHelp()
	require.NoError(t, err)
	again, err := makeSite(s.root, help)
	require.NoError(t, err)
	require.Equal(t, slices.Sorted(maps.Keys(s.files)), slices.Sorted(maps.Keys(again.files)))
	for name, text := range s.files {
		assert.Equal(t, string(text), string(again.files[name]), name)
	}
}

func TestEveryDocumentHasAPageInTheNavigation(t *testing.T) {
	s := theSite(t)
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(s.root, pattern))
		require.NoError(t, err)
		documents = append(documents, found...)
	}
	require.Greater(t, len(documents), 25)
	linked := map[string]bool{}
	for _, node := range elements(t, s.files["index.html"]) {
		linked[attribute(node, "href")] = true
	}
	for _, document := range documents {
		name, err := filepath.Rel(s.root, document)
		require.NoError(t, err)
		assert.True(t, linked[documentPath(filepath.ToSlash(name))], name)
	}
}

// TestEveryCommandHasItsHelp: the golden files of the command line have the help of
// every command there is.
func TestEveryCommandHasItsHelp(t *testing.T) {
	s := theSite(t)
	golden, err := filepath.Glob("../cmd/dynalimit/testdata/help/*.txt")
	require.NoError(t, err)
	require.Greater(t, len(golden), 20)
	var shown strings.Builder
	for name, text := range s.files {
		if path.Dir(name) == "commands" {
			shown.WriteString(html.UnescapeString(string(text)))
		}
	}
	for _, file := range golden {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		usage, _, _ := strings.Cut(string(text), "\n")
		assert.Contains(t, shown.String(), usage, file)
	}
}

// TestSearchFindsWhatGuidesSay: the words of a section lead to it, where no title has them.
func TestSearchFindsWhatGuidesSay(t *testing.T) {
	s := theSite(t)
	text, found := strings.CutPrefix(string(s.files["search-index.js"]), "var searchIndex = ")
	require.True(t, found)
	var entries [][4]string
	require.NoError(t, json.Unmarshal([]byte(strings.TrimSuffix(strings.TrimSpace(text), ";")), &entries))
	for _, asked := range []string{"429", "retry-after", "prometheus", "iam policy"} {
		assert.True(t, slices.ContainsFunc(entries, func(e [4]string) bool {
			for _, word := range strings.Fields(asked) {
				if !strings.Contains(strings.ToLower(e[0]+" "+e[1])+" "+e[3], word) {
					return false
				}
			}
			return true
		}), asked)
	}
	assert.Less(t, len(text), 1<<20, "it is read with the first search")
}

// TestNamesAreAnchors: other documents can link to every exported name.
func TestNamesAreAnchors(t *testing.T) {
	s := theSite(t)
	a, err := dissect(s.files["api/dynalimit.html"])
	require.NoError(t, err)
	for _, id := range []string{
		"RateLimiter", "RateLimiter.Acquire", "New", "Options.Timeout", "Block", "ErrConflict", "DynamoDB.UpdateItem",
		"example-RateLimiter.Acquire", "Lease.Settle", "WithIgnoreUnknown",
	} {
		assert.True(t, a.ids[id], id)
	}
	declared := regexp.MustCompile(`(?m)^func (?:\(\w+ \*?(\w+)\) )?([A-Z]\w*)`)
	files, err := filepath.Glob("../*.go")
	require.NoError(t, err)
	seen := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			if strings.HasSuffix(file, "_test.go") || m[1] != "" && strings.ToLower(m[1][:1]) == m[1][:1] {
				continue
			}
			seen++
			assert.True(t, a.ids[strings.TrimPrefix(m[1]+"."+m[2], ".")], "%s of %s", m[0], file)
		}
	}
	assert.Greater(t, seen, 80)
}

// TestExamplesStandBelowTheirNames, with what they print.
func TestExamplesStandBelowTheirNames(t *testing.T) {
	s := theSite(t)
	text := string(s.files["api/dynalimit.html"])
	_, after, found := strings.Cut(text, `id="RateLimiter.Acquire"`)
	require.True(t, found)
	own, _, _ := strings.Cut(after, "<h4")
	assert.Contains(t, own, `<details class="example" id="example-RateLimiter.Acquire">`)
	assert.Contains(t, own, "<p>Output:</p>")
	assert.NotContains(t, own, "// Output:", "it stands once")

	front, err := dissect(s.files["index.html"])
	require.NoError(t, err)
	assert.Contains(t, front.links, "api/dynalimit.html#example-RateLimiter.Acquire", "of the README's table")
	assert.Contains(t, front.links, "api/ddbmem.html")
	assert.Contains(t, front.links, "docs/performance.html#which-settings-for-which-fleet")
	assert.Contains(t, front.links, repository+"/blob/main/LICENSE")
}
