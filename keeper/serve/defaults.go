package keeper

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// storeDefaults stores the configuration's default models if the tables have none, and each default price for a
// model without stored prices. It logs a failure and returns nothing; the keeper then still uses its own
// defaults.
func (s *Service) storeDefaults(ctx context.Context) {
	err := s.storeModels(ctx)
	if errors.Is(err, budget.ErrConflict) { // another keeper was faster, maybe with its days only
		err = s.storeModels(ctx)
	}
	s.warnOfDefaults("models", err)
	for _, price := range s.config.defaultPrices() {
		if err := s.storePrice(ctx, price); err != nil {
			s.warnOfDefaults("prices", err)
			return
		}
	}
}

// warnOfDefaults logs a warning that default models or prices, as kind says, could not be stored because of
// err. It does nothing for a nil err.
func (s *Service) warnOfDefaults(kind string, err error) {
	if err != nil {
		s.parts.Logger.Warn("the default "+kind+" are not stored: other keepers of the tables, and commands, do not know them", "error", err)
	}
}

// storeModels stores the configuration's default models in the settings. It does nothing if it has none, or if
// any models are stored. It returns budget.ErrConflict if another caller changed the settings meanwhile.
func (s *Service) storeModels(ctx context.Context) error {
	if len(s.config.Defaults.Models) == 0 {
		return nil
	}
	settings, err := s.keeper.Setup().Settings(ctx)
	if err != nil || len(settings.Models) > 0 {
		return err
	}
	settings.Models = s.config.Defaults.Models
	if settings.Version == 0 {
		settings.Version = budget.NoVersion
	}
	_, err = s.keeper.Setup().PutSettings(ctx, settings)
	return err
}

// storePrice stores a default price if its model has no stored prices. Else it changes nothing, and logs a
// warning if the latest stored price differs, because the keeper follows that.
func (s *Service) storePrice(ctx context.Context, price prices.Price) error {
	stored, err := s.keeper.Prices().Get(ctx, price.Model)
	if err == nil && len(stored) == 0 {
		err = s.keeper.Prices().Replace(ctx, price.Model, nil, price)
		if errors.Is(err, budget.ErrConflict) { // another keeper was faster
			stored, err = s.keeper.Prices().Get(ctx, price.Model)
		}
	}
	if err == nil && len(stored) > 0 && stored[len(stored)-1].Rates != price.Rates {
		s.parts.Logger.Warn("the configuration has another price than the control table, which the keeper follows",
			"model_id", price.Model, "price", price.Rates, "stored", stored[len(stored)-1].Rates)
	}
	return err
}
