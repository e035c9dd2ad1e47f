package infra

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the policies into docs/permissions.md")

// documents is the folder of the documentation.
var documents = filepath.Join("..", "..", "..", "..", "docs")

// documented are the roles that the page shows, in its order.
var documented = []string{"Acquire", "Read", "Admin", "Aggregator", "Archive", "Tail", "Keeper"}

// example is where the documented policies are.
var example = Place{Partition: "aws", Region: "REGION", Account: "ACCOUNT", Bucket: "BUCKET", Prefix: "dynalimit/"}

// TestPoliciesAreThoseOfTheDocumentation: docs/permissions.md shows the policies that the
// templates make.
func TestPoliciesAreThoseOfTheDocumentation(t *testing.T) {
	policies := make([]string, len(documented))
	for i, id := range documented {
		o := Options{Aggregator: true, Archive: true, Tail: true} // of the limits alone
		if id == "Keeper" {
			o = Options{Keeper: true, Budget: &BudgetTables{Control: "control", Usage: "usage"}}
		}
		policies[i] = compact(policyOf(t, id, o, example)) + "\n"
	}
	path := filepath.Join(documents, "permissions.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	parts := strings.Split(string(text), "```json\n")
	require.Len(t, parts, 1+len(policies), "a policy of each role")
	for i, want := range policies {
		policy, rest, _ := strings.Cut(parts[i+1], "```\n")
		if *update {
			parts[i+1] = want + "```\n" + rest
			continue
		}
		assert.Equal(t, want, policy, documented[i])
		assert.NotContains(t, policy, `table/"`, "%s: a table without a name", documented[i])
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(parts, "```json\n")), 0o644)) //nolint:gosec // a document
	}
}

// compact writes the lists of a document on one line each, if they are short.
func compact(text string) string {
	var out, run []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case run != nil:
			run = append(run, strings.TrimSpace(line))
			if strings.HasPrefix(run[len(run)-1], "]") {
				joined := strings.ReplaceAll(strings.Join(run[1:len(run)-1], " "), "\n", "")
				out = append(out, run[0]+joined+run[len(run)-1])
				run = nil
			}
		case strings.HasSuffix(line, "[") && !strings.Contains(line, "Statement"):
			run = []string{line}
		default:
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
