package budget

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// TestKeepersFollowTheStoredDays: the first keeper that names its days stores them, and keepers with
// other options keep what it keeps. Settings that are put are followed after Options.ConfigTTL.
func TestKeepersFollowTheStoredDays(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	var log bytes.Buffer
	service := w.keeper(&Options{KeepDays: 3650})
	short := w.keeper(&Options{KeepDays: 30, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w.recommend(service, appA)
	w.recommend(short, appA)
	r := w.submit(short, call(1))
	for _, item := range w.items("T#") {
		var d store.Decoder
		assert.Greater(t, d.Int(item, store.AttrTTL), w.clock.Now().AddDate(9, 0, 0).Unix(), store.KeyOf(item))
	}
	assert.Equal(t, 1, strings.Count(log.String(), "differ from the settings"))

	read := func(k *Keeper) (err error) {
		for _, err = range k.History(t.Context(), orgO, appA, r.Day, r.Day) {
		}
		return err
	}
	w.clock.Advance(100 * 24 * time.Hour)
	require.NoError(t, read(short))
	s, err := w.a.Setup().Settings(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Settings{KeepDays: 3650, Version: 1}, s)
	s.KeepDays = 60
	s, err = w.a.Setup().PutSettings(t.Context(), s)
	require.NoError(t, err)
	assert.Equal(t, Settings{KeepDays: 60, Version: 2}, s)
	w.clock.Advance(time.Minute)
	require.ErrorContains(t, read(service), "more than 60 days ago")
	var actions []string
	for e, err := range w.a.Setup().Audit(t.Context(), audit.Settings, time.Time{}, time.Time{}) {
		require.NoError(t, err)
		actions = append(actions, e.Action)
	}
	assert.Equal(t, []string{actionSettingsChanged}, actions)
}

// TestDaysThatCannotBeStoredLoseNoModels: a keeper that may not store its days follows the stored
// models nevertheless.
func TestDaysThatCannotBeStoredLoseNoModels(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	_, err := w.a.Setup().PutSettings(t.Context(), Settings{Models: fixtureModels})
	require.NoError(t, err)
	k := w.keeper(&Options{KeepDays: 90, Models: map[string]string{"premium": "nothing-has-this-price"}})
	w.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "UpdateItem" && strings.Contains(string(r.Body), "SETTINGS") {
			return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException"}}
		}
		return ddbmem.Fault{}
	})
	assert.Equal(t, "premium", w.recommend(k, appA).Label)
}

// TestPutSettings: settings are replaced by who read them last, and bad ones are refused.
func TestPutSettings(t *testing.T) {
	w := newWorld(t)
	w.org(fixtureOrg())
	setup := w.a.Setup()
	bare := w.keeper(&Options{Models: map[string]string{"premium": "nothing-has-this-price"}})
	for name, bad := range map[string]Settings{
		"settings.keep_days": {KeepDays: 7}, "settings.models.premium": {Models: map[string]string{"premium": ""}},
	} {
		_, err := setup.PutSettings(t.Context(), bad)
		require.ErrorContains(t, err, name)
	}
	s, err := setup.PutSettings(t.Context(), Settings{Models: fixtureModels, Version: NoVersion})
	require.NoError(t, err)
	assert.Equal(t, "premium", w.recommend(bare, appA).Label, "the stored model comes before the option")
	for _, version := range []int64{NoVersion, 7} {
		_, err = setup.PutSettings(t.Context(), Settings{KeepDays: 60, Version: version})
		require.ErrorIs(t, err, ErrConflict)
	}
	s.KeepDays = 60
	s, err = setup.PutSettings(t.Context(), s)
	require.NoError(t, err)
	again, err := setup.PutSettings(t.Context(), Settings{KeepDays: 60, Models: fixtureModels})
	require.NoError(t, err)
	assert.Equal(t, s, again, "nothing is written twice")
}
