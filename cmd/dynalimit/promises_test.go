package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// unseen is why commands of budgets have no --dry-run.
const unseen = "it is undone by the same command, and its event says what was changed"

// changing are the commands that change something: the others send no write, nor do these
// with --dry-run. The value says why one has no --dry-run; "" for one that has it.
var changing = map[string]string{
	"system set": "", "system delete": "", "resource set": "", "resource delete": "", "plan set": "", "plan delete": "",
	"limits set": "", "limits delete": "", "manifest apply": "",
	"resource add": "", "resource remove": "", "plan add": "", "plan remove": "", "limits add": "", "limits remove": "", "upgrade": "",
	"resource lower": "", "plan lower": "", "limits lower": "",
	"table create": "", "table delete": "", "stack deploy": "a change set of CloudFormation previews it", "stack delete": "", "migrate": "",
	"entity create": "", "entity update": "", "entity delete": "",
	"block set": "", "block admit": "", "block lift": "", "bucket reset": "", "bucket top-up": "", "bucket grant": "", "bucket resume": "",
	"namespace register": "", "namespace delete": "", "namespace purge": "", "usage keep": "",

	"budget orgs delete": "", "budget apps delete": "", "budget prices import": "",
	"budget keyset create": "", "budget keyset rotate": "",
	"budget settings set": unseen, "budget orgs put": unseen, "budget apps put": unseen, "budget quotas set": unseen, "budget override": unseen, "budget adjust": unseen,
	"budget prices set": unseen, "budget prices reset": unseen, "budget sweep": unseen,
	"budget credentials create": unseen, "budget credentials rotate": unseen, "budget credentials revoke": unseen,
	"budget keys create": unseen, "budget keys revoke": unseen,
	"local":        "it serves until it is stopped",
	"keeper serve": "it serves until it is stopped",
	"tail":         "it follows until it is stopped",
}

// destroying are the commands after which something is gone: they ask.
var destroying = []string{
	"entity delete", "namespace delete", "namespace purge", "table delete", "stack delete", "migrate", "upgrade", "manifest apply", "block set",
	"budget credentials revoke", "budget keys revoke", "budget orgs delete", "budget apps delete",
}

// TestCommandsThatChangeSomethingSayWhatWould: each has --dry-run, and those that destroy
// ask, unless --yes answers before.
func TestCommandsThatChangeSomethingSayWhatWould(t *testing.T) {
	for _, leaf := range grammar().Leaves(true) {
		name := strings.TrimPrefix(leaf.FullPath(), "dynalimit ")
		has := func(flag string) bool {
			return slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == flag })
		}
		why, changes := changing[name]
		assert.Equal(t, changes && why == "", has("dry-run"), "%s: --dry-run", name)
		if slices.Contains(destroying, name) {
			assert.True(t, has("yes"), "%s: --yes", name)
		}
	}
}

// writes are the operations of DynamoDB that change something.
var writes = regexp.MustCompile(`^(Put|Update|Delete|Create|TransactWrite|BatchWrite|Tag|Untag|Restore|Execute|BatchExecute)`)

// written are the writes between two looks at an engine, by operation.
func written(from, to ddbmem.Meter) (ops []string) {
	for op, used := range to.Sub(from).Operations {
		if used.Requests > 0 && writes.MatchString(op) {
			ops = append(ops, op)
		}
	}
	return ops
}

// inGo is how the library names what to call; users of the command line have commands.
var inGo = regexp.MustCompile(`Repository\.|invalid (?:entity|config)\.|\b(?:with|call|by) (?:Set|Create|Update|Delete|Get|Register|Recover|Purge|Migrate|Reset)[A-Z]\w+`)

// exits are the documented exit codes.
var exits = []int{exitOK, exitFailed, exitUsage, exitNo, exitConflict, exitInterrupted}

// promises checks what every command keeps to, whatever it was told.
func (s *shell) promises(args []string, before ddbmem.Meter, code int, stdout, stderr string) {
	s.t.Helper()
	line := strings.Join(args, " ")
	assert.Contains(s.t, exits, code, line)
	assert.NotRegexp(s.t, inGo, stdout+stderr, line)
	leaf := leafOf(line) // doctor asks for permissions by writes whose condition nothing meets
	dry := slices.Contains(args, "--dry-run")
	if _, changes := changing[leaf]; (!changes || dry) && leaf != "doctor" && !slices.Contains(args, "--create-tables") {
		assert.Empty(s.t, written(before, s.db.Meter()), "%s writes", line)
	}
	if code != exitOK && code != exitNo {
		assert.NotEmpty(s.t, stderr, "%s fails without a word", line)
	}
	if code == exitUsage && slices.Contains(args, "--json") && leaf != "manifest validate" {
		assert.Empty(s.t, stdout, "%s: an error is no result", line)
	}
}

// TestCommandsThatDestroyAsk: for the word that they name; with another answer everything stays.
func TestCommandsThatDestroyAsk(t *testing.T) {
	s := newTable(t)
	t.Chdir(withTestdata(t))
	s.prefix = []string{"budget"}
	s.acme()
	s.must("credentials", "create", acme, "chat", "--keyset", keyset, "--out", "chat.json")
	s.must("keys", "create", "deploy", "--keyset", keyset, "--out", "deploy.key")
	s.prefix = nil
	s.must("namespace", "register", "eu")
	s.must("entity", "create", "key-1")
	for _, try := range []struct{ line, word, says string }{
		{"block set --system", "system", "Admit no call of anybody"},
		{"namespace delete eu", "eu", "What is stored stays"},
		{"entity delete key-1", "key-1", "Delete key-1: its record"},
		{"budget credentials revoke " + acme + " chat", "chat", "the app chat"},
		{"budget keys revoke deploy", "deploy", "End the key deploy"},
		{"budget apps delete " + acme + " chat", "chat", "What was counted is kept"},
		{"budget orgs delete " + acme, acme, "credentials and tokens end"},
		{"table delete", "limits", "deleted for good"},
	} {
		before := s.db.Meter()
		s.answers = strings.NewReader("yes\n")
		code, stdout, stderr := s.run(strings.Fields(try.line)...)
		assert.Equal(t, exitFailed, code, try.line)
		assert.Empty(t, stdout, try.line)
		assert.Contains(t, stderr, try.says)
		assert.Contains(t, stderr, "Type "+try.word+" to go on")
		assert.Empty(t, written(before, s.db.Meter()), try.line)
		s.answers = strings.NewReader(try.word + "\n")
		code, _, stderr = s.run(strings.Fields(try.line)...)
		assert.Equal(t, exitOK, code, stderr)
		assert.NotEmpty(t, written(before, s.db.Meter()), try.line)
	}
}
