package credentials

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/cache"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// The actions and the target of audit events about provisioning keys.
const (
	actionKeyCreated = "key_created"
	actionKeyRevoked = "key_revoked"
)

// maxRing is the maximal number of provisioning keys: enough for one per organisation of many.
const maxRing = 1000

// unknownPause is the minimal time between two reads of the ring because of an unknown key,
// which may be new.
const unknownPause = time.Second

const (
	ringPK     = "KEYRING"
	ringPrefix = "KEY#"
	attrKey    = "key_hash"
	attrBy     = "created_by"
)

// ringKey returns the key in the control table of the item of the provisioning key with a name.
func ringKey(name string) store.Key { return store.Key{PK: ringPK, SK: ringPrefix + name} }

// ProvisioningKey is an administrator's key without its secret.
type ProvisioningKey struct {
	// Name is the key's name, ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$.
	Name string `json:"name"`
	// Org is the only organisation that the key may configure. Empty for all.
	Org string `json:"org_id,omitempty"`
	// Created is the creation time.
	Created time.Time `json:"created_at,omitzero"`
	// CreatedBy is the principal of the creation. Empty if unknown.
	CreatedBy string `json:"created_by,omitempty"`
}

// NewKey is a new provisioning key with its secret, which is never shown again.
type NewKey struct {
	ProvisioningKey
	// Secret is the value of the X-API-Key header.
	Secret Secret
}

// storedKey is the stored form of a key.
type storedKey struct {
	ProvisioningKey
	hash string
}

// encodeItem returns the provisioning key as a new item of the control table: name, hash of its secret,
// creation, and if set author and organisation.
func (k storedKey) encodeItem() store.Item {
	item := ringKey(k.Name).Attributes()
	item[attrKey], item[attrCreated] = store.String(k.hash), store.Int(k.Created.Unix())
	if k.CreatedBy != "" {
		item[attrBy] = store.String(k.CreatedBy)
	}
	if k.Org != "" {
		item[attrOrg] = store.String(k.Org)
	}
	return item
}

// keys is the result of reading the ring.
type keys struct {
	all  []storedKey
	read time.Time
}

// theRing is the only cache key of the ring.
type theRing struct{}

// String returns the name of the cached list of provisioning keys, "KEYRING".
func (theRing) String() string { return ringPK }

// ring caches the provisioning keys.
type ring struct {
	core  *core
	known *cache.Loading[theRing, *keys]
}

// newRing makes the cache of provisioning keys, which are read again after CacheTTL. It sends no request.
func newRing(c *core) *ring {
	known, _ := cache.NewLoading[theRing](1, cache.Options[*keys]{Now: c.now, TTL: CacheTTL, Wait: true}) // fails only for a size below 1
	return &ring{core: c, known: known}
}

// readKeys reads all provisioning keys, sorted by name, with the hashes of their secrets and the time of the
// read. It neither uses nor fills the cache. A malformed item is an error.
func (r *ring) readKeys(ctx context.Context) (*keys, error) {
	found := &keys{read: r.core.now()}
	var d store.Decoder
	err := r.core.items.Query(ctx, r.core.items.Control, ringPK, ringPrefix, ringPrefix+"~", func(item store.Item) error {
		found.all = append(found.all, storedKey{
			ProvisioningKey{
				Name: store.KeyOf(item).SK[len(ringPrefix):], Org: d.String(item, attrOrg),
				Created: time.Unix(d.Int(item, attrCreated), 0).UTC(), CreatedBy: d.String(item, attrBy),
			}, d.String(item, attrKey),
		})
		return d.Err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// loadKeys reads all provisioning keys from the store, for the cache to keep. It takes at most Options.Timeout
// and ignores its argument, because several callers wait for one read.
func (r *ring) loadKeys(context.Context) (*keys, error) {
	ctx, cancel := ddb.Bound(context.Background(), r.core.opts.Timeout)
	defer cancel()
	return r.readKeys(ctx)
}

// CreateKey creates a provisioning key for all organisations, with an audit event, and returns it with its
// secret, which is never shown again. It works here at once, elsewhere within a second. Errors:
// *ValidationError, also for the 1,001st key; ErrConflict for a taken name; *UnavailableError.
func (s *Store) CreateKey(ctx context.Context, name string) (NewKey, error) {
	return s.createKey(ctx, ProvisioningKey{Name: name})
}

// CreateOrgKey is CreateKey for one organisation, which need not exist yet. The key stays when
// the organisation is deleted and may then create it again: revoke the key.
//
// Errors: as CreateKey.
func (s *Store) CreateOrgKey(ctx context.Context, org, name string) (NewKey, error) {
	if err := validOwner(org, ""); err != nil {
		return NewKey{}, err
	}
	return s.createKey(ctx, ProvisioningKey{Name: name, Org: org})
}

// createKey generates a provisioning key, stores its hash with an event, and drops the cached keys. Only the
// result has the secret. It returns ErrConflict if the name is taken, and a *ValidationError for a bad name or
// beyond maxRing keys.
func (s *Store) createKey(ctx context.Context, wanted ProvisioningKey) (NewKey, error) {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return NewKey{}, err
	}
	defer cancel()
	name := wanted.Name
	if !appPattern.MatchString(name) {
		return NewKey{}, invalid("name", "%q is not 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit", name)
	}
	there, err := s.ring.readKeys(ctx)
	if err != nil {
		return NewKey{}, storeFailure("CreateKey", err)
	}
	if len(there.all) >= maxRing {
		return NewKey{}, invalid("name", "would be key %d; revoke keys that nobody uses, at most %d are checked", len(there.all)+1, maxRing)
	}
	secret, err := s.core.newSecret(keyPrefix)
	if err != nil {
		return NewKey{}, err
	}
	now := truncateSeconds(s.core.now())
	wanted.Created, wanted.CreatedBy = now, s.principal
	key := NewKey{wanted, secret}
	stored := storedKey{wanted, s.core.hashSecret(s.Keys().Pepper(now), purposeKey, "", secret)}
	fields := trail.Fields{"name": name}
	if wanted.Org != "" {
		fields["org_id"] = wanted.Org
	}
	event, err := s.core.eventWrite(s.principal, actionKeyCreated, audit.Key(name), "", fields)
	if err != nil {
		return NewKey{}, err
	}
	defer s.ring.known.Drop(theRing{})
	overtaken, err := s.core.sendWrites(ctx, s.core.newPutWrite(stored.encodeItem(), store.IfAbsent, map[string]string{"#pk": "PK"}, nil), event)
	if overtaken {
		return NewKey{}, conflictError("there is a key %s; take another name, or revoke it first", name)
	}
	if err != nil {
		return NewKey{}, storeFailure("CreateKey", err)
	}
	return key, nil
}

// ListKeys reads all provisioning keys from the store, without a cache and without secrets, and returns them by name.
//
// Errors: *ValidationError, *UnavailableError.
func (s *Store) ListKeys(ctx context.Context) ([]ProvisioningKey, error) {
	ctx, cancel, err := s.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	found, err := s.ring.readKeys(ctx)
	if err != nil {
		return nil, storeFailure("ListKeys", err)
	}
	list := make([]ProvisioningKey, len(found.all))
	for i, k := range found.all {
		list[i] = k.ProvisioningKey
	}
	return list, nil
}

// RevokeKey deletes a provisioning key, with an audit event. The key stops working here at once, elsewhere within
// CacheTTL.
//
// Errors: ErrNotFound, *ValidationError, *UnavailableError.
func (s *Store) RevokeKey(ctx context.Context, name string) error {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if !appPattern.MatchString(name) {
		return notFoundError("there is no key of this name")
	}
	event, err := s.core.eventWrite(s.principal, actionKeyRevoked, audit.Key(name), "", trail.Fields{"name": name})
	if err != nil {
		return err
	}
	defer s.ring.known.Drop(theRing{})
	overtaken, err := s.core.sendWrites(ctx, s.core.newDeleteWrite(ringKey(name)), event)
	if overtaken {
		return notFoundError("there is no key %s", name)
	}
	if err == nil {
		s.core.counts.revocations.Add(1)
	}
	return storeFailure("RevokeKey", err)
}

// VerifyKey returns the key of a secret. Keys are cached for CacheTTL. For an unknown secret it
// reads them again, at most once a second, and waits for that.
//
// Errors: ErrInvalidCredentials, *UnavailableError.
func (s *Store) VerifyKey(ctx context.Context, secret Secret) (ProvisioningKey, error) {
	ctx, cancel, err := s.beginCall(ctx)
	if err != nil {
		return ProvisioningKey{}, err
	}
	defer cancel()
	if secret.Empty() || len(secret.Reveal()) > maxSecret {
		return ProvisioningKey{}, ErrInvalidCredentials
	}
	given, began := s.core.hashAttempt(s.Keys(), purposeKey, "", secret), s.core.now()
	get, waited := s.ring.known.Get, false
	for {
		ring, err := get(ctx, theRing{}, s.ring.loadKeys)
		if err != nil {
			return ProvisioningKey{}, storeFailure("VerifyKey", err)
		}
		if key, ok := ring.matchingKey(given); ok {
			return key, nil
		}
		pause := ring.read.Add(unknownPause).Sub(s.core.now())
		switch {
		case !ring.read.Before(began):
			return ProvisioningKey{}, ErrInvalidCredentials
		case pause <= 0 || waited:
			get = s.ring.known.Reload
		case !ddb.Sleep(ctx, pause):
			return ProvisioningKey{}, ErrInvalidCredentials
		default:
			waited = true // another caller may have read it since
		}
	}
}

// matchingKey returns the provisioning key whose hash the received secret matches, or ok false. It compares
// with every key, so that its duration does not reveal the match.
func (k *keys) matchingKey(given attempt) (found ProvisioningKey, ok bool) {
	for _, key := range k.all {
		if fits, _ := given.matches(key.hash); fits {
			found, ok = key.ProvisioningKey, true
		}
	}
	return found, ok
}
