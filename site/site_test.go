package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

// realSite is the site of this repository.
var realSite = sync.OnceValues(func() (*site, error) { return makeSite(os.DirFS("..")) })

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

func TestEveryPageIsWhole(t *testing.T) {
	s := theSite(t)
	assert.Greater(t, len(s.pages), 35)
	titles := map[string]string{}
	for _, p := range s.pages {
		text := s.files[p.Path]
		count := map[string]int{}
		for _, node := range elements(t, text) {
			count[node.Data]++
			if node.Data == "title" && node.Parent.Data == "head" {
				title := node.FirstChild.Data
				assert.Empty(t, titles[title], "%s and %s have one title", p.Path, titles[title])
				titles[title] = p.Path
			}
		}
		assert.Equal(t, 1, count["h1"], p.Path)
		assert.Equal(t, 1, count["main"], p.Path)
		assert.NotContains(t, string(text), "ZgotmplZ", "%s: the template refused something", p.Path)
	}
	assert.Contains(t, string(s.files["index.html"]), `<script src="mermaid/mermaid.tiny.js"`, "its diagrams are drawn")
	assert.NotContains(t, string(s.files["changelog.html"]), "mermaid.tiny.js", "it has none to draw")
}

func TestNothingIsFetchedFromElsewhere(t *testing.T) {
	s := theSite(t)
	for _, p := range s.pages {
		for _, node := range elements(t, s.files[p.Path]) {
			if node.Data == "a" {
				continue
			}
			for _, name := range []string{"src", "href", "srcset"} {
				assert.NotContains(t, attribute(node, name), "//", "<%s> of %s", node.Data, p.Path)
			}
		}
	}
	for _, name := range []string{"style.css", "search.js", "mermaid/start.js"} {
		assert.NotRegexp(t, `@import|url\(|https?:`, string(s.files[name]), name)
	}
	assert.NotRegexp(t, `\bfetch\(|XMLHttpRequest|\bimport\(|importScripts|WebSocket`, string(s.files["mermaid/mermaid.tiny.js"]))
}

func TestTwoBuildsAreEqual(t *testing.T) {
	again, err := makeSite(os.DirFS(".."))
	require.NoError(t, err)
	require.Equal(t, theSite(t).files, again.files)
}

func TestEveryDocumentHasAPageInTheNavigation(t *testing.T) {
	s := theSite(t)
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "keeper/*.md", "keeper/docs/*.md", "keeper/docs/design/*.md"} {
		found, err := fs.Glob(s.repository, pattern)
		require.NoError(t, err)
		documents = append(documents, found...)
	}
	require.Greater(t, len(documents), 25)
	linked := map[string]bool{}
	for _, node := range elements(t, s.files["index.html"]) {
		linked[attribute(node, "href")] = true
	}
	for _, name := range documents {
		assert.True(t, linked[documentPath(name)], name)
	}
}

// TestEveryCommandHasItsHelp: tests of the command line hold its files complete.
func TestEveryCommandHasItsHelp(t *testing.T) {
	s := theSite(t)
	flags, err := fs.ReadFile(s.repository, helpFlags)
	require.NoError(t, err)
	texts, err := fs.ReadFile(s.repository, helpTexts)
	require.NoError(t, err)
	var shown strings.Builder
	for name, text := range s.files {
		if strings.HasPrefix(name, "commands/") {
			shown.WriteString(html.UnescapeString(string(text)))
		}
	}
	for _, part := range strings.Split(string(flags), "\n$ dynalimit ") {
		_, text, _ := strings.Cut(part, "\n")
		for _, paragraph := range strings.Split(text, "\n\n") {
			assert.Contains(t, shown.String(), strings.TrimSpace(paragraph))
		}
	}
	for _, section := range strings.Split(string(texts), "\n# ") {
		_, text, _ := strings.Cut(section, "\n")
		assert.Contains(t, shown.String(), strings.TrimSpace(text))
	}
	assert.Contains(t, string(s.files["commands/budget.html"]), `<h2 id="budget-orgs-put">budget orgs put</h2>`)
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

const hostile = `</code></pre></title>"&amp;` + "`" + `<script>alert(1)</script><img src=x onerror=alert(1)>` + "`"

// sample is a small repository with some files of its own.
func sample(own map[string]string) fs.FS {
	files := fstest.MapFS{}
	all := map[string]string{
		"README.md": "# Sample\n", "docs/a.md": "# A\n\n## One part\n", "lib.go": "package lib\n",
		helpFlags: "Flags\n\n$ dynalimit run\nUsage: dynalimit run [flags]\n\n" + hostile, helpTexts: "# run\n",
	}
	maps.Copy(all, own)
	for name, text := range all {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func TestLinksThatLeadNowhereFailTheBuild(t *testing.T) {
	for link, want := range map[string]string{
		"docs/a.md":            "",
		"docs/a.md#one-part":   "",
		"docs":                 "", // a folder is linked where it is published
		"lib.go":               "",
		"https://example.com/": "",
		"docs/b.md":            "leads nowhere",
		"../outside.md":        "leads nowhere",
		"docs/a.md#two-parts":  "no such place",
		"#nothing":             "no such place",
		"ftp:x":                "neither",
		"//example.com/x":      "leads nowhere",
	} {
		_, err := makeSite(sample(map[string]string{"README.md": "# Sample\n\n[text](" + link + ")\n"}))
		if want == "" {
			assert.NoError(t, err, link)
		} else {
			assert.ErrorContains(t, err, want, link)
		}
	}
	for text, want := range map[string]string{
		"![gone](gone.svg)\n# A\n":             "docs/a.md: the link to gone.svg leads nowhere",
		"no heading\n":                         "docs/a.md: it has no heading of the first level",
		"# A\n\n<script>\nalert(1)\n</script>": `docs/a.md: write Markdown in place of the HTML "<script>`,
		"# A\n\nsome <b>bold</b> text":         `docs/a.md: write Markdown in place of the HTML "<b>"`,
	} {
		_, err := makeSite(sample(map[string]string{"docs/a.md": text}))
		assert.ErrorContains(t, err, want)
	}
}

func TestHostileTextStaysText(t *testing.T) {
	code := strings.ReplaceAll(hostile, "`", "")
	s, err := makeSite(sample(map[string]string{
		"README.md": "# Sample `" + code + "`\n\n[x](javascript:alert(1))\n\n```" + `go" onclick="alert(1)` + "\n" + code + "\n```\n\n" +
			"```mermaid\nflowchart LR\n  a[\"" + code + "\"]\n```\n\n| `" + code + "` |\n| --- |\n",
	}))
	require.NoError(t, err)
	for _, p := range s.pages {
		for _, node := range elements(t, s.files[p.Path]) {
			assert.NotEqual(t, "img", node.Data, p.Path)
			assert.False(t, node.Data == "script" && node.FirstChild != nil, "%s has a script of its own", p.Path)
			for _, a := range node.Attr {
				assert.False(t, strings.HasPrefix(a.Key, "on"), "%s has %s=%q", p.Path, a.Key, a.Val)
				assert.NotContains(t, a.Val, "javascript:", p.Path)
			}
		}
	}
	assert.NotContains(t, string(s.files["search-index.js"]), "</script")
	assert.Contains(t, string(s.files["index.html"]), "&lt;script&gt;", "it is shown")
}

func TestOnlyASiteIsReplaced(t *testing.T) {
	s, err := makeSite(sample(nil))
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "deep", "site")
	require.NoError(t, writeFolder(out, s.files))
	require.NoError(t, os.WriteFile(filepath.Join(out, "old.html"), nil, 0o600))
	require.NoError(t, writeFolder(out, s.files))
	assert.NoFileExists(t, filepath.Join(out, "old.html"), "what an earlier run left is gone")
	assert.FileExists(t, filepath.Join(out, "docs", "a.html"))

	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "thesis.doc"), nil, 0o600))
	assert.ErrorContains(t, writeFolder(foreign, s.files), "no site")
	assert.FileExists(t, filepath.Join(foreign, "thesis.doc"))
}

// TestCommentsAreNotShown, in which a document tells the tests what to run.
func TestCommentsAreNotShown(t *testing.T) {
	s, err := makeSite(sample(map[string]string{
		"docs/a.md": "# A\n\n<!-- not run: secret -->\n```sh\nls\n```\n\nIn <!-- secret --> a line.\n\n" +
			"1. Step.\n\n   <!-- secret\n   of two lines -->\n   ```sh\n   ls\n   ```\n",
	}))
	require.NoError(t, err)
	assert.NotContains(t, string(s.files["docs/a.html"]), "secret")
}

// TestFlagsStayWhole: on a narrow screen no line ends behind the dashes of a flag.
func TestFlagsStayWhole(t *testing.T) {
	s, err := makeSite(sample(map[string]string{"docs/a.md": "# A\n\nWith `--json`, and `a - b`.\n\n```\n--plain\n```\n"}))
	require.NoError(t, err)
	assert.Contains(t, string(s.files["docs/a.html"]), `<code class="flag">--json</code>, and <code>a - b</code>`)
	assert.Contains(t, string(s.files["style.css"]), "code.flag { white-space: nowrap; }")
}

func TestHeadingsAreNamedAsOnGitHub(t *testing.T) {
	names := anchors{}
	for _, c := range [][2]string{
		{"Which settings for which fleet", "which-settings-for-which-fleet"},
		{"`Wait`, and what *it* costs: a_b", "wait-and-what-it-costs-a_b"},
		{"1. The call is checked", "1-the-call-is-checked"},
		{"Größe – 5 ms", "größe--5-ms"},
		{"1. The call is checked", "1-the-call-is-checked-1"},
	} {
		assert.Equal(t, c[1], string(names.Generate([]byte(c[0]), 0)))
	}
}

func TestEveryLinkOfAPageIsFollowed(t *testing.T) {
	for body, want := range map[string]string{
		`<a href="b.html#x">`:            "",
		`<a href="gone.html">`:           `index.html links to "gone.html": there is no such page`,
		`<img src="gone.svg">`:           "no such page",
		`<a href="b.html#y">`:            "no such place",
		`<a href="../index.html">`:       "no such page",
		`<a href="/b.html">`:             "neither",
		`<a href="//example.com/b">`:     "neither",
		`<a href="file:///b.html">`:      "neither",
		`<a href="javascript:alert(1)">`: "neither",
		`<p id="x"><b id="x"></b></p>`:   "two places named #x",
	} {
		s := &site{files: map[string][]byte{"index.html": []byte(body), "b.html": []byte(`<p id="x">`)}}
		err := s.checkLinks()
		if want == "" {
			assert.NoError(t, err, body)
		} else {
			assert.ErrorContains(t, err, want, body)
		}
	}
	s := &site{files: map[string][]byte{"index.html": []byte(`<a href="https://b.example/"><a href="https://a.example/"><a href="https://b.example/">`)}}
	require.NoError(t, s.checkLinks())
	assert.Equal(t, "https://a.example/\nhttps://b.example/\n", string(s.files[externalLinks]))
}

// TestDiagramsAreFlowcharts, which the small edition of the mermaid script draws.
func TestDiagramsAreFlowcharts(t *testing.T) {
	diagrams := regexp.MustCompile("(?s)```mermaid\n(.*?)```")
	seen := 0
	for _, p := range theSite(t).pages {
		text, err := fs.ReadFile(os.DirFS(".."), p.Source)
		if err != nil {
			continue // the command line's folder
		}
		for _, m := range diagrams.FindAllSubmatch(text, -1) {
			seen++
			assert.Regexp(t, `^flowchart (LR|TD)\n`, string(m[1]), p.Source)
		}
	}
	assert.Positive(t, seen)
}

// TestMermaidIsTheOneThatWasLookedAt: mermaid.tiny.js of the package @mermaid-js/tiny 11.17.2.
func TestMermaidIsTheOneThatWasLookedAt(t *testing.T) {
	sum := sha256.Sum256(theSite(t).files["mermaid/mermaid.tiny.js"])
	assert.Equal(t, "7a644017d37f93c8359790884e6b67fb1f747c78eb20475952404bd87190a3f8", hex.EncodeToString(sum[:]))
}
