package credentials

import (
	"regexp"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// rootSK is the sort key of items that have a partition to themselves.
const rootSK = "#"

// Attributes of a client's item; those the source has are named as there.
const (
	attrOrg      = "org_id"
	attrApp      = "app_id"
	attrHash     = "client_secret_hash"
	attrIssued   = "client_secret_created_at_epoch"
	attrPrevious = "client_secret_previous_hash"
	attrGrace    = "client_secret_rotation_grace_expires_at_epoch"
	attrHandout  = "handout"  // the hash of the token that fetches the last secret
	attrVersion  = "cv"       // tokens of an older one are refused
	attrRevision = "revision" // rises with every change
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

// ClientID is the client id of an organisation, or of one of its apps: org-<org> or
// org-<org>-app-<app>.
func ClientID(org, app string) string {
	if app == "" {
		return clientOrg + org
	}
	return clientOrg + org + clientApp + app
}

// ParseClientID is the organisation and the app of a client id, app empty for the
// organisation's own; false for what cannot be one.
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

func validOwner(org, app string) error {
	if !orgPattern.MatchString(org) {
		return invalid("org_id", "%q is not a lower-case UUID of 36 characters", org)
	}
	if app != "" && !appPattern.MatchString(app) {
		return invalid("app_id", "%q is not 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit", app)
	}
	return nil
}

// clientPrefix begins the partitions of clients.
const clientPrefix = "CLIENT#"

func clientKey(id string) store.Key { return store.Key{PK: clientPrefix + id, SK: rootSK} }

// account is a client as it is stored. The zero account is none.
type account struct {
	org, app string
	hash     string    // of the secret; empty: revoked
	issued   time.Time // when the secret was made
	previous string    // hash of the secret before; empty: none
	grace    time.Time // until when, and not at, the previous one works
	handout  string    // the hash of the token that fetches the secret; empty if none does
	version  int64
	revision int64
	created  time.Time
	revoked  time.Time // zero: is not
	deleted  time.Time // zero: is not; with revoked
}

func (a account) id() string { return ClientID(a.org, a.app) }

// exists reports whether there are credentials that a PUT leaves alone.
func (a account) exists() bool { return a.revision > 0 && a.deleted.IsZero() }

// hashes are those that fit a good secret at a moment.
func (a account) hashes(now time.Time) []string {
	if !a.exists() || !a.revoked.IsZero() {
		return nil
	}
	hashes := []string{a.hash}
	if a.inGrace(now) {
		hashes = append(hashes, a.previous)
	}
	return hashes
}

// inGrace reports whether the secret before the last still works.
func (a account) inGrace(now time.Time) bool { return a.previous != "" && now.Before(a.grace) }

// rotated is the account with a new secret, whose hash the caller fills in. Without grace no
// older secret works, and no older refresh token. unfetched says that nobody has the last secret:
// the new one replaces that, and the one before it stays for the grace if it works still. dropped
// says that the secret before the last worked until now.
func (a account) rotated(now time.Time, graceHours int, unfetched bool) (next account, dropped bool) {
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

// newAccount is an account of a new client, or of one that comes back, whose hash the
// caller fills in: its version goes on, so that tokens of the former stay refused.
func newAccount(org, app string, former account, now time.Time) account {
	return account{
		org: org, app: app, issued: now, created: now,
		version: max(1, former.version), revision: former.revision + 1,
	}
}

// ended is the account without secrets, and with its tokens refused.
func (a account) ended(now time.Time, deleted bool) account {
	next := account{
		org: a.org, app: a.app, created: a.created, version: a.version + 1, revision: a.revision + 1,
		revoked: now, deleted: a.deleted,
	}
	if deleted {
		next.deleted = now
	}
	return next
}

func (a account) item() store.Item {
	item := clientKey(a.id()).Attributes()
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

// decodeAccount reads a client's item; no item is the zero account.
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

// Identity is a client that has logged in, or that is looked up.
type Identity struct {
	// ClientID is the client's id.
	ClientID string
	// Org is the organisation's id.
	Org string
	// App is the app's id; empty for the organisation itself.
	App string
	// Version is the version of the credentials: refresh tokens of an older one are
	// refused. It rises with a rotation without grace, and with Revoke and Delete.
	Version int64
}

func (a account) identity() Identity {
	return Identity{ClientID: a.id(), Org: a.org, App: a.app, Version: a.version}
}

// Status is what may be seen of a client's credentials.
type Status struct {
	Identity
	// Created is when the client got its first secret.
	Created time.Time
	// Issued is when it got the one it has; zero if it has none.
	Issued time.Time
	// GraceUntil is when the secret before it stops working; zero if it has.
	GraceUntil time.Time
	// RevokedAt is when the credentials were revoked; zero if they were not.
	RevokedAt time.Time
}

func (a account) status(now time.Time) Status {
	s := Status{Identity: a.identity(), Created: a.created, Issued: a.issued, RevokedAt: a.revoked}
	if a.inGrace(now) {
		s.GraceUntil = a.grace
	}
	return s
}

// seconds is a moment as it is stored, in whole seconds, so that what is answered is what
// is read later.
func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
