package dynalimit_test

import (
	"context"
	"encoding/json"
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

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// fences finds fenced blocks of a language.
func fences(text, language string) []string {
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// blockWith is the first fenced block of a language that holds a text.
func blockWith(t *testing.T, page, language, text string) string {
	t.Helper()
	blocks := fences(page, language)
	at := slices.IndexFunc(blocks, func(block string) bool { return strings.Contains(block, text) })
	require.GreaterOrEqual(t, at, 0, "a block of %s with %q", language, text)
	return blocks[at]
}

// unindented drops the indentation of every line, so that code is found at any
// depth.
func unindented(code string) string {
	lines := strings.Split(strings.TrimSpace(code), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}

// documents are the Markdown files of this module.
func documents(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("*.md")
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir("docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			paths = append(paths, path)
		}
		return err
	}))
	require.Contains(t, paths, "README.md")
	return paths
}

// TestDocumentedCodeCompiles: what the documents show is part of an example.
func TestDocumentedCodeCompiles(t *testing.T) {
	var code strings.Builder
	examples, err := filepath.Glob("example*_test.go")
	require.NoError(t, err)
	more, err := filepath.Glob("examples/*/*.go")
	require.NoError(t, err)
	for _, at := range []string{"aggregator/example*_test.go", "aggregator/*/example_test.go"} {
		ofUsage, err := filepath.Glob(at)
		require.NoError(t, err)
		examples = append(examples, ofUsage...)
	}
	examples = append(examples, "console/example_test.go", "ddbmem/example_test.go", "dynalimittest/example_test.go", "keeper/budgethttp/example_test.go", "httplimit/example_test.go", "httplimit/routers/routers_test.go", "grpclimit/example_test.go", "llm/llmtest/example_test.go", "otel/example_test.go", "llm/llmhttp/sdks/example_test.go")
	code.WriteString(unindented(blockWith(t, readText(t, "README.md"), "go", "package main")) + "\n") // TestReadmeProgramRuns
	for _, path := range append(examples, more...) {
		code.WriteString(unindented(readText(t, path)) + "\n")
	}
	seen := 0
	for _, path := range documents(t) {
		for _, block := range fences(readText(t, path), "go") {
			seen++
			assert.Contains(t, code.String(), unindented(block), "%s shows code that no example file has", path)
		}
	}
	assert.Greater(t, seen, 3)
}

// TestDocumentedLinksExist: links to files of the repository lead somewhere.
func TestDocumentedLinksExist(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	seen := 0
	for _, path := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(readText(t, path), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			seen++
			_, err := os.Stat(filepath.Join(filepath.Dir(path), m[1]))
			assert.NoError(t, err, "%s links to %s", path, m[1])
		}
	}
	assert.Greater(t, seen, 10)
}

// TestDocumentedCommandsExist: targets of make and folders of go run.
func TestDocumentedCommandsExist(t *testing.T) {
	targets := readText(t, "Makefile")
	seen := 0
	for _, path := range documents(t) {
		text := readText(t, path)
		for _, m := range regexp.MustCompile("(?m)(?:`|^)make ([a-z][a-z-]*)").FindAllStringSubmatch(text, -1) {
			seen++
			assert.Contains(t, targets, "\n"+m[1]+":", "%s names make %s", path, m[1])
		}
		for _, m := range regexp.MustCompile(`go run (\./[\w./-]+)`).FindAllStringSubmatch(text, -1) {
			seen++
			_, err := os.Stat(m[1])
			assert.NoError(t, err, "%s names go run %s", path, m[1])
		}
	}
	assert.Greater(t, seen, 5)
}

// policy is an IAM policy as the README shows it.
type policy struct {
	Statement []struct {
		Sid    string
		Action []string
	}
}

// TestReadmeProgramRuns: the first program of the README, pasted into main.go of a
// module of its own, runs and prints what a reader expects, once what stands under Install was
// done beside a clone.
func TestReadmeProgramRuns(t *testing.T) {
	root, err := filepath.Abs(".")
	require.NoError(t, err)
	program := blockWith(t, readText(t, "README.md"), "go", "package main\n")
	requires := strings.Replace(readText(t, "go.mod"), "module "+module, "module example.com/newcomer", 1)
	dir := filepath.Join(t.TempDir(), "newcomer")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.Symlink(root, filepath.Join(dir, "..", "dynalimit")))
	install := strings.Split(strings.TrimSpace(fences(readText(t, "README.md"), "sh")[0]), "\n")
	require.Equal(t, []string{"git clone https://" + module + " ../dynalimit", "go mod edit -replace " + module + "=../dynalimit"}, install)
	for name, text := range map[string]string{
		"main.go": program,
		"go.mod":  requires + "\nrequire " + module + " v0.0.0-00010101000000-000000000000\n", // as go mod tidy writes it, from what the tests have
		"go.sum":  readText(t, "go.sum"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	edit := exec.CommandContext(t.Context(), "go", strings.Fields(install[1])[1:]...)
	edit.Dir = dir
	require.NoError(t, edit.Run())
	run := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", ".")
	run.Dir, run.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	shown := blockWith(t, readText(t, "README.md"), "console", "admitted\n")
	changing := regexp.MustCompile(`5\d\d\d left; retry after [0-9.]+s`) // some milliseconds pass
	assert.Equal(t, changing.ReplaceAllString(shown, "…"), changing.ReplaceAllString(string(out), "…"))
	assert.Contains(t, string(out), " left; retry after ")
}

// TestDocumentedPermissions: the policies that are documented allow what is called,
// and nothing else.
func TestDocumentedPermissions(t *testing.T) {
	serves, administers := documentedActions(t, 0), documentedActions(t, 2)

	db := ddbmem.New()
	defer db.Close()
	repo := must(dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com"}))
	administerEverything(t, repo)
	all := append(actions(db.Meter()), "dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem") // in its transactions
	scans := "dynamodb:Scan"                                                                                     // migrations and purges
	assert.ElementsMatch(t, slices.Compact(slices.Sorted(slices.Values(append(all, scans)))), administers, "to administer and to limit")

	check(admin.New(repo).Entities.Create(t.Context(), admin.Entity{ID: "key", ParentID: "shop", Cascade: true}))
	before := db.Meter()
	limitEverything(t, must(dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com"})))
	assert.ElementsMatch(t, actions(db.Meter().Sub(before)), serves, "to limit alone")
}

// documentedActions are the actions of a documented policy.
func documentedActions(t *testing.T, n int) []string {
	t.Helper()
	blocks := fences(readText(t, "docs/permissions.md"), "json")
	require.Len(t, blocks, 7, "who serves calls, reads, administers, adds up usage, archives, follows the stream and serves budgets")
	var documented policy
	require.NoError(t, json.Unmarshal([]byte(blocks[n]), &documented))
	var names []string
	for _, s := range documented.Statement {
		names = append(names, s.Action...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// actions are the IAM actions of what was asked. A transaction needs those of its parts:
// those of calls update.
func actions(m ddbmem.Meter) []string {
	asked := map[string]bool{}
	for operation := range m.Operations {
		if operation == "TransactWriteItems" {
			operation = "UpdateItem"
		}
		asked["dynamodb:"+operation] = true
	}
	names := make([]string, 0, len(asked))
	for name := range asked {
		names = append(names, name)
	}
	return names
}

var someLimits = []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}

func administerEverything(t *testing.T, repo *dynalimit.Repository) {
	t.Helper()
	ctx := t.Context()
	check(repo.CreateTable(ctx))
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true}, someLimits))
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Everyone: true, Resource: "gpt-4"}, someLimits))
	check(admin.New(repo).Limits.Set(ctx, admin.Scope{Entity: "key", Resource: "gpt-4"}, someLimits))
	check(admin.New(repo).Entities.Create(ctx, admin.Entity{ID: "key", ParentID: "shop", Cascade: true}))
	limitEverything(t, repo)
	for _, err := range admin.New(repo).Entities.Children(ctx, "shop") {
		check(err)
	}
	for _, err := range admin.New(repo).Limits.Entities(ctx, "gpt-4") {
		check(err)
	}
	check(admin.New(repo).Limits.Delete(ctx, admin.Scope{Entity: "key", Resource: "gpt-4"}))
	check(admin.New(repo).Entities.Delete(ctx, "key"))
	check(admin.New(repo).Limits.Delete(ctx, admin.Scope{Everyone: true, Resource: "gpt-4"}))
}

// limitEverything makes every request that serving calls can make.
func limitEverything(t *testing.T, repo *dynalimit.Repository) {
	t.Helper()
	ctx := t.Context()
	limiter := must(dynalimit.New(repo, &dynalimit.Options{Limits: someLimits}))
	defer func() { check(limiter.Close(context.WithoutCancel(ctx))) }()
	for _, mode := range []dynalimit.ChargeMode{dynalimit.ChargeParallel, dynalimit.ChargeTransaction} {
		lease := must(limiter.Acquire(ctx, "key", "gpt-4", dynalimit.Amounts{"rpm": 1}, dynalimit.WithChargeMode(mode)))
		check(lease.Rollback(ctx))
	}
	must(limiter.Check(ctx, "key", "gpt-4", nil)).Available()
}
