package budget

import (
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

const (
	orgPrefix   = "ORG#" // of partitions
	pricePrefix = "PRICE#"
	appPrefix   = "APP#" // of sort keys
	overPrefix  = "OVERRIDE#"
)

// Keys of the control table.

// orgKey returns the key of an organisation's item in the control table.
func orgKey(org string) store.Key { return store.Key{PK: orgPrefix + org, SK: ledger.RootSK} }

// appKey returns the key of an app's item in the control table.
func appKey(org, app string) store.Key { return store.Key{PK: orgPrefix + org, SK: appPrefix + app} }

// overrideKey returns the key of an app's override in the control table.
func overrideKey(org, app string) store.Key {
	return store.Key{PK: orgPrefix + org, SK: overPrefix + app}
}

// priceKey returns the key of the root item of a model's prices in the control table. name is the model's id
// without a region prefix.
func priceKey(name string) store.Key { return store.Key{PK: pricePrefix + name, SK: ledger.RootSK} }

// Keys of the usage table, beside those of the ledger.

// stickyKey returns the key of the item with an app's label in use on a day, in the usage table.
func stickyKey(org, app, day string) store.Key {
	return store.Key{PK: "STICKY#" + ledger.AppScope(org, app), SK: "DAY#" + day}
}

// eventPK returns the partition key of a scope's events (thresholds and changes of label) in the usage table.
func eventPK(scope string) string { return "EVENT#" + scope }
