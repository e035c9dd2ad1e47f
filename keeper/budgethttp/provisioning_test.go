package budgethttp

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProvisioningRuns: what the page shows an administrator runs as it is, and its last
// answer is the body of a login.
func TestProvisioningRuns(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		const missing = "NO CURL: install curl (Debian: apt-get install curl) to test the examples of docs/keeper.md"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing) //nolint:forbidigo // CI asserts all of it
	}
	page, err := os.ReadFile(keeperPage)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "<!-- provisioning: run by go test -run Provisioning -->\n```sh\n")
	require.True(t, ok)
	lines, _, ok := strings.Cut(rest, "```\n<!-- end of provisioning -->")
	require.True(t, ok)
	w := newWorld(t)
	command := exec.CommandContext(t.Context(), "sh", "-ec", lines)
	command.Env = append(os.Environ(), "KEEPER="+w.a.url, "KEY="+w.key, "no_proxy=*")
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	answers := json.NewDecoder(strings.NewReader(string(out)))
	var org struct {
		Config struct{ Quotas map[string]int64 }
	}
	require.NoError(t, answers.Decode(&org), "%s", out)
	assert.Equal(t, map[string]int64{"premium": 10_000_000, "economy": 2_000_000}, org.Config.Quotas)
	var login example
	require.NoError(t, answers.Decode(&login), "%s", out)
	token := w.b.as("").do(http.MethodPost, "/auth/token", login).is(http.StatusOK).text("access_token")
	w.b.as(token).get(pathA + "/model-selection").is(http.StatusOK)
}
