package house

import (
	"errors"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStepsOfCI: the workflow runs the steps of scripts/ci.sh.
func TestStepsOfCI(t *testing.T) {
	list, err := exec.Command(filepath.Join("..", "..", "scripts", "ci.sh"), "--list").Output()
	require.NoError(t, err)
	workflow, err := os.ReadFile(filepath.Join("..", "..", ".github", "workflows", "ci.yml"))
	require.NoError(t, err)
	steps := regexp.MustCompile(`(?m)^ +step: \[(.*)\]$`).FindSubmatch(workflow)
	require.NotNil(t, steps, "the workflow has no list of steps")
	assert.Equal(t, strings.Fields(string(list)), strings.Split(string(steps[1]), ", "))
}

// TestUnreleasedChanges: each file is an item of a list, and its name begins with its kind.
func TestUnreleasedChanges(t *testing.T) {
	for _, module := range []string{".", "keeper"} {
		folder := filepath.Join("..", "..", module, "changelog", "unreleased")
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, entry := range entries {
			assert.Regexp(t, `^(added|changed|fixed|removed)-[a-z0-9-]+\.md$`, entry.Name())
			text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
			require.NoError(t, err)
			assert.Regexp(t, `^- \S[^\n]*\n(  \S[^\n]*\n)*$`, string(text), entry.Name())
		}
	}
}

// TestKeeperRequiresItsRelease: the keeper uses packages below the root's internal, so each of its
// releases requires the root module at its own version. Before the first release it requires none.
func TestKeeperRequiresItsRelease(t *testing.T) {
	module, err := os.ReadFile(filepath.Join("..", "..", "keeper", "go.mod"))
	require.NoError(t, err)
	changes, err := os.ReadFile(filepath.Join("..", "..", "keeper", "CHANGELOG.md"))
	require.NoError(t, err)
	assert.Equal(t, newestRelease(string(changes)), requiredRoot(string(module)))

	assert.Equal(t, "v0.2.0", newestRelease("# Changes\n\n## v0.2.0\n\n## v0.1.0\n"))
	assert.Equal(t, "v0.1.0", requiredRoot("require (\n\tgithub.com/dynalimit/dynalimit v0.1.0\n)\n"))
	assert.Equal(t, "v0.1.0", requiredRoot("require github.com/dynalimit/dynalimit v0.1.0\n"))
}

// TestPackageCommentsListFiles: a package comment that lists the files of its package names each of them, and no other.
func TestPackageCommentsListFiles(t *testing.T) {
	name := regexp.MustCompile(`\b[a-z][a-z0-9_]*\.go\b`)
	for _, pkg := range []string{"internal/lane", "internal/plan", "internal/laws", "internal/laws/rules", "internal/lock", "internal/prefetch"} {
		folder := filepath.Join("..", "..", filepath.FromSlash(pkg))
		doc, err := os.ReadFile(filepath.Join(folder, "doc.go"))
		require.NoError(t, err)
		listed := slices.DeleteFunc(name.FindAllString(string(doc), -1), func(f string) bool { return strings.HasSuffix(f, "_test.go") })
		slices.Sort(listed)
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		var there []string
		for _, f := range files {
			if f = filepath.Base(f); f != "doc.go" && !strings.HasSuffix(f, "_test.go") {
				there = append(there, f)
			}
		}
		assert.Equal(t, there, slices.Compact(listed), pkg)
	}
}

// TestLifeOfAnAcquireNamesFunctions: each function and type that the page names beside a file is in that file.
func TestLifeOfAnAcquireNamesFunctions(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "life-of-an-acquire.md"))
	require.NoError(t, err)
	const name, file = "`((?:[A-Za-z]+\\.)?[A-Za-z]+)`", "`([a-z_/]+\\.go)`"
	named := regexp.MustCompile(name+`(?:\s+and\s+`+name+`)?\s+(?:\(|in\s+)`+file).FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(named), 30)
	for _, n := range named {
		code, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(n[3])))
		if errors.Is(err, fs.ErrNotExist) { // named without its folder
			continue
		}
		require.NoError(t, err)
		for _, function := range n[1:3] {
			if function = function[strings.LastIndex(function, ".")+1:]; function != "" {
				there := regexp.MustCompile(`(?m)^(func|type) (\(\S+ \S+\) )?` + function + `[\[( ]`).Match(code)
				assert.True(t, there, "%s is not in %s", function, n[3])
			}
		}
	}
}

// newestRelease is the first version among the headings of a changelog; empty if there is none.
func newestRelease(changes string) string {
	return regexp.MustCompile(`(?m)^## (v\S+)$|\z`).FindStringSubmatch(changes)[1]
}

// requiredRoot is the version of the root module that a go.mod requires; empty if it requires none.
func requiredRoot(module string) string {
	return regexp.MustCompile(`(?m)^(?:require|\t)\s*github\.com/dynalimit/dynalimit (v\S+)|\z`).FindStringSubmatch(module)[1]
}

// foreignNames are the names in the pages that belong to AWS and to providers' SDKs.
var foreignNames = []string{
	"AutomaticContinuation", "ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits",
	"SuccessfulRequestLatency", "TimeToLiveDeletedItemCount",
}

// TestNamesInPages: each file and each name of several words that a page puts in backticks is
// in the repository.
func TestNamesInPages(t *testing.T) {
	root := filepath.Join("..", "..")
	files, words := map[string]bool{}, map[string]bool{}
	for _, name := range foreignNames {
		words[name] = true
	}
	word := regexp.MustCompile(`[A-Za-z_]\w+`)
	var pages []string
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && entry.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		files[entry.Name()] = true
		switch filepath.Ext(path) {
		case ".md":
			pages = append(pages, path)
		case ".go", ".yaml", ".yml", ".tf", ".txt", ".json", ".py", ".mjs", ".sh":
			text, err := os.ReadFile(path)
			if filepath.Ext(path) == ".go" {
				text = withoutComments(text)
			}
			for _, w := range word.FindAll(text, -1) {
				words[string(w)] = true
			}
			return err
		}
		return nil
	}))
	quoted, compound := regexp.MustCompile("`([\\w./-]+)`"), regexp.MustCompile(`^([A-Z][a-z]+){2,}$|^Test[A-Z]\w+$|^([A-Z][a-z]+)+(\.([A-Z][a-z]+)+)+$`)
	for _, page := range pages {
		if slices.Contains([]string{"CHANGELOG.md", "upgrading.md", "differences.md", "from-zae-limiter.md"}, filepath.Base(page)) {
			continue // they name what is gone or another library's
		}
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for n, line := range strings.Split(string(text), "\n") {
			if strings.Contains(line, "| old |") {
				break // the old words of the glossary follow
			}
			if strings.Contains(line, "Rejected") {
				continue
			}
			for _, match := range quoted.FindAllStringSubmatch(line, -1) {
				name := match[1]
				known := true
				switch {
				case strings.HasSuffix(name, ".go"):
					known = files[filepath.Base(name)]
				case compound.MatchString(name):
					known = !slices.ContainsFunc(strings.Split(name, "."), func(part string) bool { return !words[part] })
				}
				assert.True(t, known, "%s:%d names %s, which is nowhere", page, n+1, name)
			}
		}
	}
}

// withoutComments returns the tokens of a Go file.
func withoutComments(source []byte) []byte {
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile("", -1, len(source)), source, nil, 0)
	var text []byte
	for {
		_, tok, literal := s.Scan()
		if tok == token.EOF {
			return text
		}
		text = append(append(text, literal...), ' ')
	}
}
