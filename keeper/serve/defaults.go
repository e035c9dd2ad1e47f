package keeper

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// storeDefaults stores the default models and prices of the configuration where none are stored, for other
// keepers of the tables and for commands. It logs a failure, and the keeper continues with its own.
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

// warnOfDefaults logs that default models or prices could not be stored. It does nothing for a nil error.
func (s *Service) warnOfDefaults(kind string, err error) {
	if err != nil {
		s.parts.Logger.Warn("the default "+kind+" are not stored: other keepers of the tables, and commands, do not know them", "error", err)
	}
}

// storeModels stores the default models of the configuration, unless it has none or models are stored. It
// returns budget.ErrConflict if another keeper changed the settings meanwhile.
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

// storePrice stores a default price unless prices of its model are stored. It warns of
// different stored prices, which the keeper follows.
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
