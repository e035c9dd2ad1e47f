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

// Settings are what all keepers of a table share. They are stored in the control table, and each
// keeper follows them within its Options.ConfigTTL, whatever its own options say.
type Settings struct {
	// KeepDays is how many days what was counted is kept after its day, see Options.KeepDays: from
	// 30 to 36,500. 0 means that none is stored.
	KeepDays int `json:"keep_days,omitempty"`
	// Models are model ids by label, where neither an app nor its organisation has one. They come
	// before Options.Models.
	Models map[string]string `json:"models,omitempty"`
	// Version counts the changes. In PutSettings it asks for the version that was read; 0 asks for
	// none, and NoVersion for settings that nobody has stored.
	Version int64 `json:"version"`
}

// validate refuses settings that cannot be stored.
func (s Settings) validate() error {
	if s.KeepDays != 0 && !keepable(s.KeepDays) {
		return invalid("settings.keep_days", "is %d; give 30 to 36500 days, or 0 for none", s.KeepDays)
	}
	return validModels("settings.models.", s.Models)
}

// keepable reports whether what was counted may be kept for so many days.
func keepable(days int) bool { return days >= 30 && days <= 36_500 }

// validModels refuses models by label that no call can use.
func validModels(field string, models map[string]string) error {
	for _, label := range slices.Sorted(maps.Keys(models)) {
		if problem.CheckLabel(label) != "" || models[label] == "" {
			return invalid(field+label, "%q is not a model id for a label", models[label])
		}
	}
	return nil
}

// fields are those of an audit event.
func (s Settings) fields() trail.Fields {
	fields := trail.Fields{}
	if s.KeepDays > 0 {
		fields["keep_days"] = s.KeepDays
	}
	if len(s.Models) > 0 {
		fields["models"] = s.Models
	}
	return fields
}

// settingsItem is the item of the settings.
type settingsItem struct {
	KeepDays int               `dynamodbav:"keep_days,omitempty"`
	Models   map[string]string `dynamodbav:"models,omitempty"`
	Version  int64             `dynamodbav:"cfg_version"`
}

var settingsKey = store.Key{PK: "SETTINGS", SK: ledger.RootSK}

// decodeSettings are stored settings; nil is none.
func decodeSettings(item store.Item) (Settings, error) {
	var s settingsItem
	if err := attributevalue.UnmarshalMap(item, &s); err != nil {
		return Settings{}, fmt.Errorf("stored settings: %w", err)
	}
	return Settings(s), nil
}

// sharedSettings are the settings of the table as this process last read them.
type sharedSettings struct {
	store *store.Store
	own   Options
	// named is Options.KeepDays as the caller gave it, 0 for the default.
	named int

	mu      sync.Mutex
	last    Settings
	adopted bool
	said    Settings // that the options say something else
}

// keepDays is how many days are kept, as far as this process knows.
func (s *sharedSettings) keepDays() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(s.last).KeepDays
}

// of returns settings with the options in the place of what they do not say.
func (s *sharedSettings) of(stored Settings) Settings {
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

// read reads the settings.
func (s *sharedSettings) read(ctx context.Context) (Settings, error) {
	item, err := s.store.Get(ctx, s.store.Control, settingsKey)
	if err != nil {
		return Settings{}, err
	}
	return s.follow(ctx, item)
}

// follow takes stored settings over, and returns them with the options in the place of what they do
// not say. The first keeper that names its days stores them if nobody has. One that names others
// says once that it does not keep them.
func (s *sharedSettings) follow(ctx context.Context, item store.Item) (Settings, error) {
	stored, err := decodeSettings(item)
	if err != nil {
		return Settings{}, err
	}
	s.mu.Lock()
	s.last = stored
	adopt := stored.KeepDays == 0 && s.named != 0 && !s.adopted
	s.adopted = s.adopted || adopt
	differs := s.differs(stored) && !s.said.same(stored)
	if differs {
		s.said = stored
	}
	s.mu.Unlock()
	if differs {
		s.own.Logger.Warn("budget: the options of this keeper differ from the settings stored in the control table, which it follows",
			"keep_days", stored.KeepDays, "option_keep_days", s.named, "models", stored.Models, "option_models", s.own.Models)
	}
	if adopt {
		return s.adopt(ctx, stored)
	}
	return s.of(stored), nil
}

// differs reports whether the options say something else than stored settings.
func (s *sharedSettings) differs(stored Settings) bool {
	for label, model := range s.own.Models {
		if is := stored.Models[label]; is != "" && is != model {
			return true
		}
	}
	return s.named != 0 && stored.KeepDays != 0 && s.named != stored.KeepDays
}

// adopt stores the days of this keeper unless somebody has stored days meanwhile. It goes on with
// its own days if it may not write.
func (s *sharedSettings) adopt(ctx context.Context, stored Settings) (Settings, error) {
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
	case err == nil || store.Diagnose(err) == ddb.Refused: // somebody has
		return s.read(ctx)
	case store.Diagnose(err).Unavailable():
		s.mu.Lock()
		s.adopted = false
		s.mu.Unlock()
	default:
		s.own.Logger.Warn("budget: the days to keep cannot be stored for other keepers of the table; store them with 'dynalimit budget settings set --keep-days'",
			"keep_days", s.named, "error", err)
	}
	return s.of(stored), nil
}

// same reports whether settings say the same.
func (s Settings) same(other Settings) bool {
	return s.KeepDays == other.KeepDays && maps.Equal(s.Models, other.Models)
}
