package credentials

import (
	"regexp"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// rootSK is the sort key of the only item of a partition.
const rootSK = "#"

// Attributes of a client's item. Those that the original schema has keep their names.
const (
	attrOrg      = "org_id"
	attrApp      = "app_id"
	attrHash     = "client_secret_hash"
	attrIssued   = "client_secret_created_at_epoch"
	attrPrevious = "client_secret_previous_hash"
	attrGrace    = "client_secret_rotation_grace_expires_at_epoch"
	attrHandout  = "handout"  // hash of the token that retrieves the last secret
	attrVersion  = "cv"       // tokens of an older version are refused
	attrRevision = "revision" // increases with every change
	attrCreated  = "created_at_epoch"
	attrRevoked  = "revoked_at_epoch"
	attrDeleted  = "deleted_at_epoch"
)

var (
	orgPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	appPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

const (
	clientOrg = "org-"
	clientApp = "-app-"
	uuidBytes = 36
)

// ClientID returns the client id of an organisation, or of one of its apps: org-<org> or
// org-<org>-app-<app>.
func ClientID(org, app string) string {
	if app == "" {
		return clientOrg + org
	}
	return clientOrg + org + clientApp + app
}

// ParseClientID splits a client id into organisation and app; app is empty for an organisation's own client.
// For an invalid id ok is false and the other results have no meaning.
func ParseClientID(id string) (org, app string, ok bool) {
	rest, ok := strings.CutPrefix(id, clientOrg)
	if !ok || len(rest) < uuidBytes || !orgPattern.MatchString(rest[:uuidBytes]) {
		return "", "", false
	}
	org, rest = rest[:uuidBytes], rest[uuidBytes:]
	if rest == "" {
		return org, "", true
	}
	app, ok = strings.CutPrefix(rest, clientApp)
	return org, app, ok && appPattern.MatchString(app)
}

// validOwner returns nil if org is a lower-case UUID and app is empty or a valid app id, else a
// *ValidationError for the wrong field. It does not check that they exist.
func validOwner(org, app string) error {
	if !orgPattern.MatchString(org) {
		return invalid("org_id", "%q is not a lower-case UUID of 36 characters", org)
	}
	if app != "" && !appPattern.MatchString(app) {
		return invalid("app_id", "%q is not 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit", app)
	}
	return nil
}

// clientPrefix is the prefix of the partitions of clients.
const clientPrefix = "CLIENT#"

// clientKey returns the key of the item with a client's credentials in the control table. id is the client id.
func clientKey(id string) store.Key { return store.Key{PK: clientPrefix + id, SK: rootSK} }

// account is a client's stored credentials. The zero account means that none are stored.
type account struct {
	org, app string
	hash     string    // of the secret; empty if revoked
	issued   time.Time // creation of the secret
	previous string    // hash of the previous secret; empty if there is none
	grace    time.Time // end (excluded) of the time in which the previous secret works
	handout  string    // hash of the token that retrieves the secret; empty if none does
	version  int64
	revision int64
	created  time.Time
	revoked  time.Time // zero unless revoked
	deleted  time.Time // zero unless deleted; a deleted account is also revoked
}

// clientID returns the account's client id: the app's, or the organisation's if the account has no app.
func (a account) clientID() string { return ClientID(a.org, a.app) }

// hasCredentials reports whether the client has credentials, perhaps revoked ones. It is false if none were
// ever created, and after Delete.
func (a account) hasCredentials() bool { return a.revision > 0 && a.deleted.IsZero() }

// validHashes returns the hashes of the secrets that are valid for logins at now: the current one, and the
// previous one during its grace. It returns nil for revoked, deleted or missing credentials.
func (a account) validHashes(now time.Time) []string {
	if !a.hasCredentials() || !a.revoked.IsZero() {
		return nil
	}
	hashes := []string{a.hash}
	if a.inGrace(now) {
		hashes = append(hashes, a.previous)
	}
	return hashes
}

// inGrace reports whether the account has a previous secret whose grace has not ended at now. It does not check
// for a revocation.
func (a account) inGrace(now time.Time) bool { return a.previous != "" && now.Before(a.grace) }

// withNewSecret returns a copy of the account for a new secret, whose hash the caller sets. The old secret
// works for graceHours; with 0 its refresh tokens end too. If the last secret is unfetched, the one before it
// gets the grace; dropped means that an older one ends now.
func (a account) withNewSecret(now time.Time, graceHours int, unfetched bool) (next account, dropped bool) {
	inUse := a.hash
	if unfetched {
		inUse = ""
		if a.inGrace(now) {
			inUse = a.previous
		}
	}
	next, dropped = a, a.inGrace(now) && (!unfetched || graceHours == 0)
	next.hash, next.issued, next.revision = "", now, a.revision+1
	next.revoked, next.deleted = time.Time{}, time.Time{}
	next.previous, next.grace = "", time.Time{}
	switch {
	case !a.revoked.IsZero(): // its tokens were refused already
	case graceHours == 0:
		next.version++
	case inUse != "":
		next.previous, next.grace = inUse, now.Add(time.Duration(graceHours)*time.Hour)
	}
	return next, dropped
}

// newAccount returns the account of a new client, or of one that was deleted, without a hash, which the caller
// sets. It continues the version and revision of former, so that old tokens stay invalid. It stores nothing.
func newAccount(org, app string, former account, now time.Time) account {
	return account{
		org: org, app: app, issued: now, created: now,
		version: max(1, former.version), revision: former.revision + 1,
	}
}

// withoutSecrets returns a copy of the account without secrets, revoked at now, and with the next version,
// which makes its tokens invalid. With deleted it is marked as deleted too. It stores nothing.
func (a account) withoutSecrets(now time.Time, deleted bool) account {
	next := account{
		org: a.org, app: a.app, created: a.created, version: a.version + 1, revision: a.revision + 1,
		revoked: now, deleted: a.deleted,
	}
	if deleted {
		next.deleted = now
	}
	return next
}

// encodeItem returns the account as a new item of the control table, with times in Unix seconds. It leaves out
// empty texts and zero times, so that a put removes them.
func (a account) encodeItem() store.Item {
	item := clientKey(a.clientID()).Attributes()
	for name, text := range map[string]string{attrOrg: a.org, attrApp: a.app, attrHash: a.hash, attrPrevious: a.previous, attrHandout: a.handout} {
		if text != "" {
			item[name] = store.String(text)
		}
	}
	for name, at := range map[string]time.Time{
		attrIssued: a.issued, attrGrace: a.grace, attrCreated: a.created, attrRevoked: a.revoked, attrDeleted: a.deleted,
	} {
		if !at.IsZero() {
			item[name] = store.Int(at.Unix())
		}
	}
	item[attrVersion], item[attrRevision] = store.Int(a.version), store.Int(a.revision)
	return item
}

// decodeAccount decodes a client's item. A nil item gives the zero account. A malformed attribute gives an
// error.
func decodeAccount(item store.Item) (account, error) {
	var d store.Decoder
	at := func(name string) time.Time {
		if seconds := d.Int(item, name); seconds != 0 {
			return time.Unix(seconds, 0).UTC()
		}
		return time.Time{}
	}
	a := account{
		org: d.String(item, attrOrg), app: d.String(item, attrApp),
		hash: d.String(item, attrHash), issued: at(attrIssued),
		previous: d.String(item, attrPrevious), grace: at(attrGrace), handout: d.String(item, attrHandout),
		version: d.Int(item, attrVersion), revision: d.Int(item, attrRevision),
		created: at(attrCreated), revoked: at(attrRevoked), deleted: at(attrDeleted),
	}
	return a, d.Err
}

// Identity is a client that has logged in or was looked up.
type Identity struct {
	// ClientID is the client id.
	ClientID string
	// Org is the organisation's id.
	Org string
	// App is the app's id. It is empty for the organisation itself.
	App string
	// Version is the version of the credentials. Refresh tokens of an older version are
	// refused. It increases with a rotation without grace, with Revoke and with Delete.
	Version int64
}

// identity returns the client id, the organisation, the app and the version of the account. It contains no
// hash.
func (a account) identity() Identity {
	return Identity{ClientID: a.clientID(), Org: a.org, App: a.app, Version: a.version}
}

// Status is the public state of a client's credentials.
type Status struct {
	Identity
	// Created is when the client got its first secret.
	Created time.Time
	// Issued is when the client got its current secret; zero if it has none.
	Issued time.Time
	// GraceUntil is when the previous secret stops working; zero if it has stopped.
	GraceUntil time.Time
	// RevokedAt is when the credentials were revoked; zero if they are not.
	RevokedAt time.Time
}

// publicStatus returns the account's state for callers, without hashes: times of creation, current secret and
// revocation. GraceUntil is zero unless the previous secret is in its grace at now.
func (a account) publicStatus(now time.Time) Status {
	s := Status{Identity: a.identity(), Created: a.created, Issued: a.issued, RevokedAt: a.revoked}
	if a.inGrace(now) {
		s.GraceUntil = a.grace
	}
	return s
}

// truncateSeconds returns t in UTC without the fraction of a second. Stored times have this precision, so the
// result equals the later read.
func truncateSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
