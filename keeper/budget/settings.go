package budget

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// Settings are shared by all keepers of a table. They are stored in the control table. Each
// keeper follows them within its Options.ConfigTTL, whatever its own options.
type Settings struct {
	// KeepDays is the number of days that counters are kept after their day, see
	// Options.KeepDays: from 30 to 36,500. 0 means that no number is stored.
	KeepDays int `json:"keep_days,omitempty"`
	// Models maps labels to model ids, for labels without one in the app's and the
	// organisation's configuration. It takes precedence over Options.Models.
	Models map[string]string `json:"models,omitempty"`
	// Version counts the changes. PutSettings requires the stored version to equal it; 0
	// requires nothing, and NoVersion requires that no settings are stored.
	Version int64 `json:"version"`
}

// validate returns a *fault.ValidationError for KeepDays other than 0 and 30 to 36,500, or for a bad label or
// model id. It does not check Version.
func (s Settings) validate() error {
	if s.KeepDays != 0 && !isValidRetention(s.KeepDays) {
		return invalid("settings.keep_days", "is %d; give 30 to 36500 days, or 0 for none", s.KeepDays)
	}
	return validModels("settings.models.", s.Models)
}

// isValidRetention reports whether days is a valid retention: 30 to 36,500.
func isValidRetention(days int) bool { return days >= 30 && days <= 36_500 }

// validModels returns a *fault.ValidationError unless every label is valid and has a model id. The error's
// field is the argument field and the label.
func validModels(field string, models map[string]string) error {
	for _, label := range slices.Sorted(maps.Keys(models)) {
		if problem.CheckLabel(label) != "" || models[label] == "" {
			return invalid(field+label, "%q is not a model id for a label", models[label])
		}
	}
	return nil
}

// eventFields returns days and models, as far as set, as the fields of an audit event. It leaves out the
// version.
func (s Settings) eventFields() trail.Fields {
	fields := trail.Fields{}
	if s.KeepDays > 0 {
		fields["keep_days"] = s.KeepDays
	}
	if len(s.Models) > 0 {
		fields["models"] = s.Models
	}
	return fields
}

// settingsItem is the stored form of Settings.
type settingsItem struct {
	KeepDays int               `dynamodbav:"keep_days,omitempty"`
	Models   map[string]string `dynamodbav:"models,omitempty"`
	Version  int64             `dynamodbav:"cfg_version"`
}

var settingsKey = store.Key{PK: "SETTINGS", SK: ledger.RootSK}

// decodeSettings decodes the settings item of the table. A nil item gives the zero Settings. It fills no gaps
// from options.
func decodeSettings(item store.Item) (Settings, error) {
	var s settingsItem
	if err := attributevalue.UnmarshalMap(item, &s); err != nil {
		return Settings{}, fmt.Errorf("stored settings: %w", err)
	}
	return Settings(s), nil
}

// sharedSettings is the settings of the table as this process last read them.
type sharedSettings struct {
	store *store.Store
	own   Options
	// named is Options.KeepDays as the caller gave it, or 0.
	named int

	mu      sync.Mutex
	last    Settings
	adopted bool
	said    Settings // the settings whose difference from the options is logged
}

// keepDays returns for how many days counters are kept: the stored number as last read, else this keeper's
// option or default. It sends no request.
func (s *sharedSettings) keepDays() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.withOptions(s.last).KeepDays
}

// withOptions returns stored with its gaps filled from this keeper's options: the days if none are stored, and
// models of labels without a stored one. stored itself and the options stay unchanged.
func (s *sharedSettings) withOptions(stored Settings) Settings {
	if stored.KeepDays == 0 {
		stored.KeepDays = s.own.KeepDays
	}
	models := maps.Clone(s.own.Models)
	if models == nil {
		models = map[string]string{}
	}
	maps.Copy(models, stored.Models)
	stored.Models = models
	return stored
}

// readSettings reads the stored settings, remembers them for keepDays, and returns them with gaps filled from
// this keeper's options. If no days are stored, it may store this keeper's, see adoptStored.
func (s *sharedSettings) readSettings(ctx context.Context) (Settings, error) {
	item, err := s.store.Get(ctx, s.store.Control, settingsKey)
	if err != nil {
		return Settings{}, err
	}
	return s.adoptStored(ctx, item)
}

// adoptStored decodes and remembers the settings item, and returns it with gaps filled from the options. If no
// days are stored but Options.KeepDays is set, it stores that. It logs once if the options contradict the
// settings.
func (s *sharedSettings) adoptStored(ctx context.Context, item store.Item) (Settings, error) {
	stored, err := decodeSettings(item)
	if err != nil {
		return Settings{}, err
	}
	s.mu.Lock()
	s.last = stored
	adopt := stored.KeepDays == 0 && s.named != 0 && !s.adopted
	s.adopted = s.adopted || adopt
	differs := s.contradicts(stored) && !s.said.isSame(stored)
	if differs {
		s.said = stored
	}
	s.mu.Unlock()
	if differs {
		s.own.Logger.Warn("budget: the options of this keeper differ from the settings stored in the control table, which it follows",
			"keep_days", stored.KeepDays, "option_keep_days", s.named, "models", stored.Models, "option_models", s.own.Models)
	}
	if adopt {
		return s.storeDays(ctx, stored)
	}
	return s.withOptions(stored), nil
}

// contradicts reports whether this keeper's options set other days than stored, or another model for a label.
// Values that only one side sets do not count.
func (s *sharedSettings) contradicts(stored Settings) bool {
	for label, model := range s.own.Models {
		if is := stored.Models[label]; is != "" && is != model {
			return true
		}
	}
	return s.named != 0 && stored.KeepDays != 0 && s.named != stored.KeepDays
}

// storeDays stores this keeper's days unless the table has days already, and returns the settings with gaps
// filled. A failed write gives no error: without permission it logs that, and during an outage the next read
// tries again.
func (s *sharedSettings) storeDays(ctx context.Context, stored Settings) (Settings, error) {
	err := store.Retry(ctx, func() error {
		_, err := s.store.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.store.Control, Key: settingsKey.Attributes(),
			UpdateExpression:          aws.String("SET #days = :days ADD #version :one"),
			ConditionExpression:       aws.String("attribute_not_exists(#days)"),
			ExpressionAttributeNames:  map[string]string{"#days": "keep_days", "#version": "cfg_version"},
			ExpressionAttributeValues: store.Item{":days": store.Int(int64(s.named)), ":one": store.Int(1)},
		}, store.Once)
		return err
	})
	switch {
	case err == nil || store.Diagnose(err) == ddb.Refused: // another keeper has
		return s.readSettings(ctx)
	case store.Diagnose(err).Unavailable():
		s.mu.Lock()
		s.adopted = false
		s.mu.Unlock()
	default:
		s.own.Logger.Warn("budget: the days to keep cannot be stored for other keepers of the table; store them with 'dynalimit budget settings set --keep-days'",
			"keep_days", s.named, "error", err)
	}
	return s.withOptions(stored), nil
}

// isSame reports whether two settings are equal, apart from the version.
func (s Settings) isSame(other Settings) bool {
	return s.KeepDays == other.KeepDays && maps.Equal(s.Models, other.Models)
}
