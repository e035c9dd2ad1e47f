package credentials

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// The actions of audit events, as Setup.Audit of package budget lists them.
const (
	actionCreated  = "credentials_created"
	actionImported = "credentials_imported"
	actionRotated  = "secret_rotated"
	actionRevoked  = "credentials_revoked"
	actionDeleted  = "credentials_deleted"
)

// changeTries is how often a change is retried that others overtake.
const changeTries = 10

// Issued is a new secret, or the fact that the client has one already.
type Issued struct {
	Identity
	// Created is true if this call issued the secret. Otherwise the client has one, nothing was
	// written, and Token is empty.
	Created bool
	// Token retrieves the secret once, see Retrieve.
	Token Secret
	// ExpiresAt is when Token expires.
	ExpiresAt time.Time
}

// Rotation is a secret that replaces another.
type Rotation struct {
	Issued
	// GraceUntil is when the previous secret stops working; zero if it has stopped.
	GraceUntil time.Time
	// OldestDropped is true if a still older secret worked until now. At most two secrets work.
	OldestDropped bool
}

// Create gives an organisation (if app is empty) or an app a client id and a secret, unless it
// has them. Concurrent calls for one client create one secret, and the losers return as if they
// had come later. Retrieve returns the secret itself. After Delete, Create begins anew.
//
// Errors: *ValidationError, *UnavailableError. Create does not check that the organisation
// exists.
func (s *Store) Create(ctx context.Context, org, app string) (Issued, error) {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return Issued{}, err
	}
	defer cancel()
	if err := validOwner(org, app); err != nil {
		return Issued{}, err
	}
	for n := 0; ; n++ {
		seen, err := s.core.loadAccount(ctx, ClientID(org, app))
		if err != nil {
			return Issued{}, storeFailure("Create", err)
		}
		if seen.hasCredentials() {
			return Issued{Identity: seen.identity()}, nil
		}
		issued, overtaken, err := s.issueSecret(ctx, actionCreated, seen, nil, func(now time.Time) (account, trail.Fields) {
			next := newAccount(org, app, seen, now)
			return next, trail.Fields{"client_id": next.clientID(), "version": next.version}
		})
		if !overtaken || n == changeTries {
			return issued, storeFailure("Create", err)
		}
	}
}

// Rotate gives a client a new secret. The current one works for graceHours more, 0 to 168. With
// 0 it stops at once, and earlier refresh tokens stop working too. At most two secrets work: an
// older one is dropped, and the result says so. If no caller has retrieved the current secret,
// Rotate replaces it and its token, and the one before it works for graceHours more: rotate
// again after losing a token. A revoked client gets a secret again.
//
// Errors: *ValidationError; ErrNotFound for a client without credentials; ErrConflict if
// another caller changed them at the same time, and then this call wrote nothing;
// *UnavailableError.
func (s *Store) Rotate(ctx context.Context, org, app string, graceHours int) (Rotation, error) {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return Rotation{}, err
	}
	defer cancel()
	if err := validOwner(org, app); err != nil {
		return Rotation{}, err
	}
	if graceHours < 0 || graceHours > MaxGraceHours {
		return Rotation{}, invalid("grace_period_hours", "is %d; give 0 to %d whole hours", graceHours, MaxGraceHours)
	}
	seen, err := s.core.loadExisting(ctx, org, app)
	if err != nil {
		return Rotation{}, storeFailure("Rotate", err)
	}
	void, unfetched, err := s.core.readHandout(ctx, seen)
	if err != nil {
		return Rotation{}, storeFailure("Rotate", err)
	}
	var rotation Rotation
	issued, overtaken, err := s.issueSecret(ctx, actionRotated, seen, void, func(now time.Time) (account, trail.Fields) {
		next, dropped := seen.withNewSecret(now, graceHours, unfetched)
		rotation.GraceUntil, rotation.OldestDropped = next.grace, dropped
		return next, trail.Fields{"client_id": next.clientID(), "version": next.version, "grace_hours": graceHours}
	})
	if overtaken {
		return Rotation{}, conflictError("the credentials of %s were changed by somebody else at the same time; read them, and rotate again if they still need it", seen.clientID())
	}
	if err != nil {
		return rotation, storeFailure("Rotate", err)
	}
	rotation.Issued = issued
	return rotation, nil
}

// issueSecret generates a secret and its retrieval token. It stores the client's new state from decide, the
// sealed secret, an event and further, in one transaction. If another caller changed the client after seen, it
// writes nothing and overtaken is true.
func (s *Store) issueSecret(
	ctx context.Context, action string, seen account, further []types.TransactWriteItem, decide func(now time.Time) (account, trail.Fields),
) (issued Issued, overtaken bool, err error) {
	secret, err := s.core.newSecret(secretPrefix)
	if err != nil {
		return Issued{}, false, err
	}
	token, err := s.core.newSecret(retrievalPrefix)
	if err != nil {
		return Issued{}, false, err
	}
	now := truncateSeconds(s.core.now())
	pepper := s.Keys().Pepper(now)
	next, fields := decide(now)
	next.hash, next.handout = s.core.hashSecret(pepper, purposeClient, next.clientID(), secret), tokenHash(token)
	handout, err := s.core.handoutItem(next, token, secret, now)
	if err != nil {
		return Issued{}, false, err
	}
	if overtaken, err = s.replaceAccount(ctx, action, seen, next, fields, append(further, s.core.newPutWrite(handout, "", nil, nil))...); err != nil {
		return Issued{}, overtaken, err
	}
	return Issued{Identity: next.identity(), Created: true, Token: token, ExpiresAt: now.Add(RetrievalTTL)}, false, nil
}

// replaceAccount stores next in place of seen, with an event of action and fields and with further, in one
// transaction. If the stored client has another revision than seen, it writes nothing and overtaken is true.
func (s *Store) replaceAccount(
	ctx context.Context, action string, seen, next account, fields trail.Fields, further ...types.TransactWriteItem,
) (overtaken bool, err error) {
	event, err := s.core.eventWrite(s.principal, action, next.org, next.app, fields)
	if err != nil {
		return false, err
	}
	condition, values := store.IfAbsent, store.Item(nil)
	names := map[string]string{"#pk": "PK"}
	if seen.revision > 0 {
		condition, names, values = "#revision = :seen", map[string]string{"#revision": attrRevision}, store.Item{":seen": store.Int(seen.revision)}
	}
	writes := append([]types.TransactWriteItem{s.core.newPutWrite(next.encodeItem(), condition, names, values)}, further...)
	return s.core.sendWrites(ctx, append(writes, event)...)
}

// Import gives a client without credentials the hash of another system's secret, which Options.ImportedHash verifies at
// logins; it stores an audit event.
//
// Errors: *ValidationError, also for a hash of this store; ErrConflict for a client that has credentials;
// *UnavailableError.
func (s *Store) Import(ctx context.Context, org, app string, hash Secret) error {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if err := validOwner(org, app); err != nil {
		return err
	}
	if _, _, own := parseHash(hash.Reveal()); own || hash.Empty() || len(hash.Reveal()) > maxSecret {
		return invalid("hash", "is not a hash of another system, of 1 to %d bytes; give the hash that the system stored", maxSecret)
	}
	seen, err := s.core.loadAccount(ctx, ClientID(org, app))
	if err != nil {
		return storeFailure("Import", err)
	}
	overtaken := seen.hasCredentials()
	if !overtaken {
		next := newAccount(org, app, seen, truncateSeconds(s.core.now()))
		next.hash = hash.Reveal()
		overtaken, err = s.replaceAccount(ctx, actionImported, seen, next, trail.Fields{"client_id": next.clientID(), "version": next.version})
	}
	if overtaken {
		return conflictError("%s has credentials; rotate them instead", ClientID(org, app))
	}
	return storeFailure("Import", err)
}
