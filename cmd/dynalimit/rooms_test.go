package main

import (
	"go/build"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	project = "github.com/dynalimit/dynalimit"
	rooms   = project + "/cmd/dynalimit/internal/"
	sdk     = "github.com/aws/aws-sdk-go-v2"
)

// roomTable says what each room below internal may import besides the standard library:
// of ours, and of others. A pure room imports no part of the standard library that does
// I/O either. No room knows kong: flags end in package main.
var roomTable = map[string]struct {
	pure         bool
	ours, others []string
	reason       string
}{
	"browsertest": {
		others: []string{"github.com/chromedp", "github.com/stretchr/testify/require", "go.uber.org/goleak"}, reason: "opens pages in a browser, for tests",
	},
	"connect":  {ours: []string{project, project + "/internal/ddb", project + "/awsclient"}, others: []string{sdk, "github.com/aws/smithy-go"}, reason: "finds what commands work on, whatever they do with it"},
	"decision": {ours: []string{project, project + "/admin", project + "/sources", project + "/internal/notation", rooms + "term"}, reason: "explains what the library says, and decides nothing"},
	"doctor": {
		ours: []string{project, project + "/admin", project + "/aggregator/alert", project + "/keeper/budget", project + "/internal/ddb", project + "/internal/schema", project + "/internal/notation", rooms + "tables"}, others: []string{sdk, "github.com/aws/smithy-go"},
		reason: "asks clients that it is given what is wrong",
	},
	"follow": {
		pure: true, ours: []string{project + "/aggregator", project + "/internal/notation"}, reason: "sums up what a Tail and a Closer tell it",
	},
	"gate": {reason: "lets a browser in to any page"},
	"infra": {
		pure: true, ours: []string{project, project + "/keeper/budget"}, others: []string{sdk},
		reason: "templates are values: the same options give the same text",
	},
	"ledger": {
		pure: true, ours: []string{project + "/aggregator", project + "/internal/notation"}, reason: "sums and writes usage that it is given",
	},
	"live": {
		ours:   []string{project, project + "/admin", project + "/sources", rooms + "decision", project + "/internal/notation", rooms + "term"},
		others: []string{sdk, "github.com/charmbracelet/x/ansi"}, reason: "reads what it is given, and draws it on a terminal that it is given",
	},
	"manifest": {
		ours:   []string{project, project + "/admin", project + "/internal/calendar", project + "/internal/ddb", project + "/internal/schema", project + "/internal/notation", rooms + "term", project + "/internal/yamlfile"},
		others: []string{"go.yaml.in/yaml/v3", "golang.org/x/sync"}, reason: "compares files with a repository that it is given",
	},
	"shape": {pure: true, reason: "a schema is a value, of a type"},
	"stack": {
		ours: []string{project + "/internal/ddb"}, others: []string{sdk, "github.com/aws/smithy-go", "go.yaml.in/yaml/v3"},
		reason: "deploys any template by a client that it is given",
	},
	"tables": {
		ours: []string{project, project + "/admin", project + "/keeper/budget", project + "/internal/ddb", project + "/internal/schema", project + "/internal/table"}, others: []string{sdk, "github.com/aws/smithy-go"},
		reason: "makes and describes tables with a client that it is given",
	},
	"term": {others: []string{"github.com/charmbracelet/x/ansi", "golang.org/x/term"}, reason: "talks to people about anything"},
	"zae": {
		ours: []string{project, project + "/admin", project + "/internal/calendar", project + "/internal/layout", project + "/internal/schema", project + "/internal/table", rooms + "manifest", project + "/internal/notation"}, others: []string{sdk},
		reason: "reads a table with a client that it is given, and writes nothing to it",
	},
	"version": {pure: true, reason: "reads what was stamped"},
}

// doesIO are packages of the standard library that no pure room imports.
var doesIO = []string{"net", "os", "os/exec", "os/signal", "bufio", "log/slog", "database/sql"}

func TestRooms(t *testing.T) {
	folders, err := os.ReadDir("internal")
	require.NoError(t, err)
	for _, folder := range folders {
		row, ok := roomTable[folder.Name()]
		if !assert.True(t, ok, "internal/%s has no row in roomTable: add one with the reason for what it may import", folder.Name()) {
			continue
		}
		assert.NotEmpty(t, row.reason)
		for _, imported := range importsOf(t, filepath.Join("internal", folder.Name())) {
			standard := !strings.Contains(strings.Split(imported, "/")[0], ".")
			within := func(p string) bool { return imported == p || strings.HasPrefix(imported, p+"/") }
			switch {
			case standard:
				assert.False(t, row.pure && slices.ContainsFunc(doesIO, within), "internal/%s is pure and imports %s", folder.Name(), imported)
			case imported == project+"/fault", imported == project+"/audit": // errors and events are values
			case within(project):
				assert.Contains(t, row.ours, imported, "internal/%s: %s", folder.Name(), row.reason)
			default:
				assert.True(t, slices.ContainsFunc(row.others, within), "internal/%s imports %s: %s", folder.Name(), imported, row.reason)
			}
		}
	}
	for name := range roomTable {
		_, err := os.Stat(filepath.Join("internal", name))
		assert.NoError(t, err, "%s has a row in roomTable and no code", name)
	}
}

// importsOf are the imports of the shipped code of a folder and of those below it.
func importsOf(t *testing.T, folder string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() == "testdata" {
			return err
		}
		p, err := build.Default.ImportDir(path, 0)
		if err == nil {
			all = append(all, p.Imports...)
		}
		return nil
	}))
	require.NotEmpty(t, all, folder)
	return all
}
