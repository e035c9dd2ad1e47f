package budget

import (
	"context"
	"maps"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
)

// Settings reads the stored settings, without the gaps filled from options. It returns the zero Settings
// without an error if none are stored.
func (s *Setup) Settings(ctx context.Context) (Settings, error) {
	k := s.keeper()
	if err := k.checkUsable(ctx); err != nil {
		return Settings{}, err
	}
	item, err := k.store.Get(ctx, k.store.Control, settingsKey)
	if err != nil {
		return Settings{}, adminError("Settings", err)
	}
	return decodeSettings(item)
}

// PutSettings replaces the settings and returns them with their new version. Other keepers
// follow within their Options.ConfigTTL. Existing items keep their time to live. It writes an
// audit.Event unless nothing changes.
//
// Errors: *fault.ValidationError, *fault.UnavailableError, ErrConflict if the settings have
// changed since the version that was read.
func (s *Setup) PutSettings(ctx context.Context, settings Settings) (Settings, error) {
	k := s.keeper()
	by, err := k.changeAuthor(ctx)
	if err != nil {
		return Settings{}, err
	}
	if err := settings.validate(); err != nil {
		return Settings{}, err
	}
	return k.admin.putSettings(ctx, by, settings)
}

// putSettings stores next with an audit event in the name of by, and returns it with its new version; equal
// settings it does not write. It returns ErrConflict unless next.Version permits it. It drops all cached
// configurations, also after an error.
func (adm *administration) putSettings(ctx context.Context, by string, next Settings) (Settings, error) {
	want := next.Version
	err := adm.desk.commit(ctx, func() (*change, error) {
		seen, err := adm.store.Get(ctx, adm.store.Control, settingsKey)
		if err != nil {
			return nil, err
		}
		last, err := decodeSettings(seen)
		if err != nil {
			return nil, err
		}
		if next.Version = last.Version; next.isSame(last) {
			return nil, nil //nolint:nilnil // nothing is to be written, also by a try that was not answered
		}
		if err := (configItem{Version: last.Version}).checkVersion("the settings", want); err != nil {
			return nil, err
		}
		next.Version++
		event, err := adm.desk.newEvent(adm.now(), audit.Event{Principal: by, Action: actionSettingsChanged, Target: audit.Settings}, last.eventFields(), next.eventFields())
		if err != nil {
			return nil, err
		}
		item, err := attributevalue.MarshalMap(settingsItem(next))
		if err != nil {
			return nil, err
		}
		maps.Copy(item, settingsKey.Attributes())
		return &change{[]types.TransactWriteItem{adm.desk.newPutIfUnchanged(item, seen, "cfg_version")}, event}, nil
	})
	adm.tenants.evictAll()
	if err != nil {
		return Settings{}, adminError("PutSettings", err)
	}
	return next, nil
}
