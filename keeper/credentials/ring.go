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

// The actions and the target of events about provisioning keys.
const (
	actionKeyCreated = "key_created"
	actionKeyRevoked = "key_revoked"
)

// maxRing bounds the provisioning keys: one for each of many organisations.
const maxRing = 1000

// unknownPause is how often the ring is read again because somebody came with a key that
// is not in it: it may be new.
const unknownPause = time.Second

const (
	ringPK     = "KEYRING"
	ringPrefix = "KEY#"
	attrKey    = "key_hash"
	attrBy     = "created_by"
)

func ringKey(name string) store.Key { return store.Key{PK: ringPK, SK: ringPrefix + name} }

// ProvisioningKey is a key of an administrator, without its secret.
type ProvisioningKey struct {
	// Name is the key's name, ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$.
	Name string `json:"name"`
	// Org is the one organisation that the key configures; empty for all.
	Org string `json:"org_id,omitempty"`
	// Created is when it was made.
	Created time.Time `json:"created_at,omitzero"`
	// CreatedBy is who made it; empty for nobody known.
	CreatedBy string `json:"created_by,omitempty"`
}

// NewKey is a provisioning key with its secret, which nobody sees again.
type NewKey struct {
	ProvisioningKey
	// Secret is what is sent as X-API-Key.
	Secret Secret
}

// storedKey is a key as it is stored.
type storedKey struct {
	ProvisioningKey
	hash string
}

func (k storedKey) item() store.Item {
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

// keys are those of a moment.
type keys struct {
	all  []storedKey
	read time.Time
}

// theRing is the one key of the ring's cache.
type theRing struct{}

// String is the key as text.
func (theRing) String() string { return ringPK }

// ring is the provisioning keys as this process knows them.
type ring struct {
	core  *core
	known *cache.Loading[theRing, *keys]
}

func newRing(c *core) *ring {
	known, _ := cache.NewLoading[theRing](1, cache.Options[*keys]{Now: c.now, TTL: CacheTTL, Wait: true}) // fails only for a size below 1
	return &ring{core: c, known: known}
}

// read reads every key.
func (r *ring) read(ctx context.Context) (*keys, error) {
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

// load reads every key for whoever waits.
func (r *ring) load(context.Context) (*keys, error) {
	ctx, cancel := ddb.Bound(context.Background(), r.core.opts.Timeout)
	defer cancel()
	return r.read(ctx)
}

// CreateKey makes a provisioning key for all organisations. It works at once; elsewhere its first
// use may take a second.
//
// Errors: *ValidationError, also for key 1,001; ErrConflict for a name that is taken;
// *UnavailableError.
func (s *Store) CreateKey(ctx context.Context, name string) (NewKey, error) {
	return s.createKey(ctx, ProvisioningKey{Name: name})
}

// CreateOrgKey makes a provisioning key as CreateKey does, for one organisation, which need
// not be there yet. It stays when the organisation is deleted, which whoever has it may then
// put again: revoke it.
//
// Errors: as of CreateKey.
func (s *Store) CreateOrgKey(ctx context.Context, org, name string) (NewKey, error) {
	if err := validOwner(org, ""); err != nil {
		return NewKey{}, err
	}
	return s.createKey(ctx, ProvisioningKey{Name: name, Org: org})
}

func (s *Store) createKey(ctx context.Context, wanted ProvisioningKey) (NewKey, error) {
	ctx, cancel, err := s.change(ctx)
	if err != nil {
		return NewKey{}, err
	}
	defer cancel()
	name := wanted.Name
	if !appPattern.MatchString(name) {
		return NewKey{}, invalid("name", "%q is not 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit", name)
	}
	there, err := s.ring.read(ctx)
	if err != nil {
		return NewKey{}, failure("CreateKey", err)
	}
	if len(there.all) >= maxRing {
		return NewKey{}, invalid("name", "would be key %d; revoke keys that nobody uses, at most %d are checked", len(there.all)+1, maxRing)
	}
	secret, err := s.core.newSecret(keyPrefix)
	if err != nil {
		return NewKey{}, err
	}
	now := seconds(s.core.now())
	wanted.Created, wanted.CreatedBy = now, s.principal
	key := NewKey{wanted, secret}
	stored := storedKey{wanted, s.core.hash(s.Keys().Pepper(now), purposeKey, "", secret)}
	fields := trail.Fields{"name": name}
	if wanted.Org != "" {
		fields["org_id"] = wanted.Org
	}
	event, err := s.core.event(s.principal, actionKeyCreated, audit.Key(name), "", fields)
	if err != nil {
		return NewKey{}, err
	}
	defer s.ring.known.Drop(theRing{})
	overtaken, err := s.core.send(ctx, s.core.put(stored.item(), store.IfAbsent, map[string]string{"#pk": "PK"}, nil), event)
	if overtaken {
		return NewKey{}, conflict("there is a key %s; take another name, or revoke it first", name)
	}
	if err != nil {
		return NewKey{}, failure("CreateKey", err)
	}
	return key, nil
}

// ListKeys lists the provisioning keys, by name.
//
// Errors: *UnavailableError.
func (s *Store) ListKeys(ctx context.Context) ([]ProvisioningKey, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	found, err := s.ring.read(ctx)
	if err != nil {
		return nil, failure("ListKeys", err)
	}
	list := make([]ProvisioningKey, len(found.all))
	for i, k := range found.all {
		list[i] = k.ProvisioningKey
	}
	return list, nil
}

// RevokeKey ends a provisioning key, here at once and elsewhere within CacheTTL.
//
// Errors: ErrNotFound, *ValidationError, *UnavailableError.
func (s *Store) RevokeKey(ctx context.Context, name string) error {
	ctx, cancel, err := s.change(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if !appPattern.MatchString(name) {
		return notFound("there is no key of this name")
	}
	event, err := s.core.event(s.principal, actionKeyRevoked, audit.Key(name), "", trail.Fields{"name": name})
	if err != nil {
		return err
	}
	defer s.ring.known.Drop(theRing{})
	overtaken, err := s.core.send(ctx, s.core.remove(ringKey(name)), event)
	if overtaken {
		return notFound("there is no key %s", name)
	}
	if err == nil {
		s.core.counts.revocations.Add(1)
	}
	return failure("RevokeKey", err)
}

// VerifyKey is the key that a secret is of. Keys are remembered for CacheTTL; a secret that
// fits none of them has them read again, at most once a second: it waits for that.
//
// Errors: ErrInvalidCredentials, *UnavailableError.
func (s *Store) VerifyKey(ctx context.Context, secret Secret) (ProvisioningKey, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return ProvisioningKey{}, err
	}
	defer cancel()
	if secret.Empty() || len(secret.Reveal()) > maxSecret {
		return ProvisioningKey{}, ErrInvalidCredentials
	}
	given, began := s.core.attempt(s.Keys(), purposeKey, "", secret), s.core.now()
	get, waited := s.ring.known.Get, false
	for {
		ring, err := get(ctx, theRing{}, s.ring.load)
		if err != nil {
			return ProvisioningKey{}, failure("VerifyKey", err)
		}
		if key, ok := ring.fitting(given); ok {
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
			waited = true // somebody else may have read it since
		}
	}
}

// fitting is the key that a secret is of. It looks at each.
func (k *keys) fitting(given attempt) (found ProvisioningKey, ok bool) {
	for _, key := range k.all {
		if fits, _ := given.fits(key.hash); fits {
			found, ok = key.ProvisioningKey, true
		}
	}
	return found, ok
}
