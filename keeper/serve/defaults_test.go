package keeper

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

// TestDefaultsAreStoredOnce: the first keeper stores the default models and prices of its
// configuration, so that a keeper without a configuration, as commands make it, knows both. A keeper
// with others follows what is stored, and says so.
func TestDefaultsAreStoredOnce(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	r := startLogging(t, nil, func(c *Config) {
		c.Defaults.Models = map[string]string{"small": "acme.own"}
		c.Prices.Default = map[string]Rates{"acme.own": {Input: 1_000_000, Output: 4_000_000}}
	}, nil)
	r.storeDefaults(t.Context()) // the tables were made after the keeper was opened
	command, err := budget.New(r.db.Client(), budget.Tables{}, nil)
	require.NoError(t, err)
	defer func() { assert.NoError(t, command.Close(t.Context())) }()
	check := func() {
		t.Helper()
		settings, err := command.Setup().Settings(t.Context())
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"small": "acme.own"}, settings.Models)
		stored, err := command.Prices().Get(t.Context(), "acme.own")
		require.NoError(t, err)
		require.Len(t, stored, 1)
		assert.Equal(t, []int64{1_000_000, 4_000_000}, []int64{stored[0].Rates.Input, stored[0].Rates.Output})
	}
	check()

	config := r.config
	config.Defaults.Models = map[string]string{"small": "other"}
	config.Prices.Default = map[string]Rates{"acme.own": {Input: 7, Output: 7}}
	other := &Service{config: config, parts: r.parts, keeper: r.keeper}
	other.parts.Logger = logger
	other.storeDefaults(t.Context())
	check()
	assert.Equal(t, 1, strings.Count(log.String(), "another price than the control table"), log.String())

	r.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException"}}
	})
	other.storeDefaults(t.Context())
	r.db.SetFaults(nil)
	assert.Contains(t, log.String(), "the default prices are not stored")
}
