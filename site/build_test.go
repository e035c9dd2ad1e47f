package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const hostile = `</code></pre></title><script>alert(1)</script><img src=x onerror=alert(1)>" onclick="alert(1)`

// sample is a small repository with some files of its own.
func sample(t *testing.T, own map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"README.md": "# Sample\n", "CONTRIBUTING.md": "# Contributing\n", "CHANGELOG.md": "# Changelog\n", "SECURITY.md": "# Security\n",
		"docs/a.md": "# A\n\n## One part\n", "go.mod": "module sample\n", "lib.go": "// Package lib is small.\npackage lib\n",
		"examples/one/main.go": "// Command one does it.\npackage main\n\nfunc main() {}\n",
	}
	maps.Copy(files, own)
	for name, text := range files {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return root
}

func someHelp(args ...string) (string, error) {
	if len(args) == 0 {
		return "Usage: x\n\nThings:\n  run    Run " + hostile + ".\n\nFlags:\n  -h    Help.", nil
	}
	return "Usage: x run\n" + hostile, nil
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
		root := sample(t, map[string]string{"README.md": "# Sample\n\n[text](" + link + ")\n"})
		_, err := makeSite(root, someHelp)
		if want == "" {
			assert.NoError(t, err, link)
		} else {
			assert.ErrorContains(t, err, want, link)
		}
	}
	_, err := makeSite(sample(t, map[string]string{"docs/a.md": "![gone](gone.svg)\n# A\n"}), someHelp)
	assert.ErrorContains(t, err, "docs/a.md: the link to gone.svg leads nowhere")
	_, err = makeSite(sample(t, map[string]string{"docs/a.md": "no heading\n"}), someHelp)
	assert.ErrorContains(t, err, "docs/a.md: it has no heading of the first level")
}

func TestHostileTextStaysText(t *testing.T) {
	root := sample(t, map[string]string{
		"README.md": "# Sample " + hostile + "\n\n" + hostile + "\n\n<script>\nalert(1)\n</script>\n\n" +
			"[x](javascript:alert(1)) ![x](docs/a.svg \"" + `\" onload=alert(1)` + "\")\n\n```" + `go" onclick="alert(1)` + "\n" + hostile + "\n```\n\n```mermaid\nflowchart LR\n" +
			"  a[\"</text><script>alert(1)</script>\"] -- \"<b onclick=1>\" --> b\n```\n\n| " + hostile + " |\n| --- |\n| " + hostile + " |\n",
		"docs/a.svg": "<svg/>",
		"lib.go": "// Package lib is " + hostile + ".\npackage lib\n\n// T is " + hostile + ".\ntype T struct {\n\tA string `" + strings.ReplaceAll(hostile, "`", "") +
			"` // " + hostile + "\n}\n",
		"lib_test.go": "package lib\n\nimport \"fmt\"\n\nfunc ExampleT() {\n\tfmt.Println(\"<script>\")\n\t// Output: <script>alert(1)</script>\n}\n",
	})
	s, err := makeSite(root, someHelp)
	require.NoError(t, err)
	for _, p := range s.pages {
		assertNested(t, p.path, s.files[p.path])
		scripts := 0
		for _, node := range elements(t, s.files[p.path]) {
			if node.Data == "script" {
				scripts++
			}
			for _, a := range node.Attr {
				assert.False(t, strings.HasPrefix(a.Key, "on"), "%s has %s=%q", p.path, a.Key, a.Val)
				assert.NotContains(t, a.Val, "javascript:", p.path)
			}
		}
		assert.Equal(t, 2, scripts, p.path)
	}
	assert.NotContains(t, string(s.files["search-index.js"]), "</script")
	assert.Contains(t, string(s.files["index.html"]), "&lt;script&gt;", "it is shown")
}

func TestAFailingCommandLineFailsTheBuild(t *testing.T) {
	root := sample(t, nil)
	_, err := makeSite(root, func(...string) (string, error) { return "", errors.New("exit 2") })
	assert.ErrorContains(t, err, "exit 2")
	_, err = makeSite(root, func(...string) (string, error) { return "Usage: x\n", nil })
	assert.ErrorContains(t, err, "lists no commands")
}

func TestOnlyASiteIsReplaced(t *testing.T) {
	s, err := makeSite(sample(t, nil), someHelp)
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "deep", "site")
	require.NoError(t, s.write(out))
	require.NoError(t, os.WriteFile(filepath.Join(out, "old.html"), nil, 0o600))
	require.NoError(t, s.write(out))
	assert.NoFileExists(t, filepath.Join(out, "old.html"), "what an earlier run left is gone")
	assert.FileExists(t, filepath.Join(out, "docs", "a.html"))

	foreign := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "thesis.doc"), nil, 0o600))
	assert.ErrorContains(t, s.write(foreign), "no site")
	assert.FileExists(t, filepath.Join(foreign, "thesis.doc"))
}

// TestCommentsAreNotShown, in which a document tells the tests what to run; what stands
// beside a comment is.
func TestCommentsAreNotShown(t *testing.T) {
	s, err := makeSite(sample(t, map[string]string{
		"docs/a.md": "# A\n\n<!-- not run: secret -->\n```sh\nls\n```\n\nIn <!-- secret --> a line.\n\n" +
			"1. Step.\n\n   <!-- secret\n   of two lines -->\n   ```sh\n   ls\n   ```\n\n<!-- seen --> beside <!-- it -->\n",
	}), someHelp)
	require.NoError(t, err)
	page := string(s.files["docs/a.html"])
	assert.NotContains(t, page, "secret")
	assert.Contains(t, page, "&lt;!-- seen --&gt; beside")
}

// TestFlagsStayWhole: on a narrow screen no line ends behind the dashes of a flag.
func TestFlagsStayWhole(t *testing.T) {
	s, err := makeSite(sample(t, map[string]string{"docs/a.md": "# A\n\nWith `--json`, and `a - b`.\n\n```\n--plain\n```\n"}), someHelp)
	require.NoError(t, err)
	page := string(s.files["docs/a.html"])
	assert.Contains(t, page, `<code class="flag">--json</code>, and <code>a - b</code>`)
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

func TestCommandsAreFoundInTheHelp(t *testing.T) {
	overview := "Usage: dynalimit\n\nStart here:\n\n    dynalimit local    # a comment\n\nLimits:\n  system     Show.\n\nThis program:\n  local      Serve.\n\nFlags:\n  -h, --help    Show."
	assert.Equal(t, []string{"system", "local"}, nounsIn(overview))
	help := "Usage: dynalimit\n\nFlags:\n  -h, --help    Show.\n\nCommands:\n  budget orgs list       List\n                         all.\n  check <entity>         Check.\n" +
		"  a-very-long-command of-many-words\n                         Something.\n  local [flags]          Serve.\n\nRun \"dynalimit <command> --help\" for more."
	assert.Equal(t, []string{"budget orgs list", "check", "a-very-long-command of-many-words", "local"}, verbsIn(help))
	assert.Empty(t, verbsIn(overview))
}

func TestDiagramsAreReadWhole(t *testing.T) {
	f, err := parseFlow("flowchart TD\n  subgraph G[a group]\n    a([A]) & b[\"B<br/>two\"] --> c\n  end\n  c -- to it --> d[(D)]\n  d -. \"back\" .-> a")
	require.NoError(t, err)
	require.Len(t, f.nodes, 4)
	require.Len(t, f.edges, 4)
	assert.Equal(t, []string{"B", "two"}, f.nodes[1].lines)
	assert.Equal(t, []int{0, 0, 1, 2}, []int{f.nodes[0].rank, f.nodes[1].rank, f.nodes[2].rank, f.nodes[3].rank})
	assert.Equal(t, []int{0, 0, 0, -1}, []int{f.nodes[0].group, f.nodes[1].group, f.nodes[2].group, f.nodes[3].group})
	assert.Equal(t, "to it", f.edges[2].text)
	last := f.edges[3]
	assert.True(t, last.back && last.dotted)
	assert.Equal(t, "back", last.text)

	for _, bad := range []string{"sequenceDiagram\n a->>b: x", "flowchart LR\n  a ==> b", "flowchart LR\n  --> b", "flowchart LR\n  style a fill:#f00"} {
		_, err := drawFlow(bad)
		assert.Error(t, err, bad)
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
		err := s.check()
		if want == "" {
			assert.NoError(t, err, body)
		} else {
			assert.ErrorContains(t, err, want, body)
		}
	}
	s := &site{files: map[string][]byte{"index.html": []byte(`<a href="https://b.example/"><a href="https://a.example/"><a href="https://b.example/">`)}}
	require.NoError(t, s.check())
	assert.Equal(t, "https://a.example/\nhttps://b.example/\n", string(s.files[externalLinks]))
}
