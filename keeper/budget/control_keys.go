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

func orgKey(org string) store.Key { return store.Key{PK: orgPrefix + org, SK: ledger.RootSK} }

func appKey(org, app string) store.Key { return store.Key{PK: orgPrefix + org, SK: appPrefix + app} }

func overrideKey(org, app string) store.Key {
	return store.Key{PK: orgPrefix + org, SK: overPrefix + app}
}

func priceKey(name string) store.Key { return store.Key{PK: pricePrefix + name, SK: ledger.RootSK} }

// Keys of the usage table, beside those of the ledger.

func stickyKey(org, app, day string) store.Key {
	return store.Key{PK: "STICKY#" + ledger.AppScope(org, app), SK: "DAY#" + day}
}

func eventPK(scope string) string { return "EVENT#" + scope }
