package credentials

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// The actions of events, as Setup.Audit of package budget lists them.
const (
	actionCreated  = "credentials_created"
	actionImported = "credentials_imported"
	actionRotated  = "secret_rotated"
	actionRevoked  = "credentials_revoked"
	actionDeleted  = "credentials_deleted"
)

// changeTries bounds how often a change is decided anew that somebody else's overtook.
const changeTries = 10

// Issued is a new secret, or word that there is one already.
type Issued struct {
	Identity
	// Created says that the client got a secret with this call. Else it had one, nothing
	// was written, and there is no Token.
	Created bool
	// Token fetches the secret, once; see Retrieve.
	Token Secret
	// ExpiresAt is when Token cannot be used any longer.
	ExpiresAt time.Time
}

// Rotation is a secret in the place of another.
type Rotation struct {
	Issued
	// GraceUntil is when the secret before this one stops working; zero: it has.
	GraceUntil time.Time
	// OldestDropped says that a secret was still in its grace beside the last one, and
	// works no longer: at most two do.
	OldestDropped bool
}

// Create gives an organisation, or an app (empty: the organisation itself), a client id
// and a secret, unless it has them: calls of the same client at the same time give it one
// secret, and those that lose answer as if they had come later. The secret itself is
// fetched with Retrieve. After Delete, Create begins anew.
//
// Errors: *ValidationError, *UnavailableError. Nothing says whether the organisation is
// configured.
func (s *Store) Create(ctx context.Context, org, app string) (Issued, error) {
	ctx, cancel, err := s.change(ctx)
	if err != nil {
		return Issued{}, err
	}
	defer cancel()
	if err := validOwner(org, app); err != nil {
		return Issued{}, err
	}
	for n := 0; ; n++ {
		seen, err := s.core.load(ctx, ClientID(org, app))
		if err != nil {
			return Issued{}, failure("Create", err)
		}
		if seen.exists() {
			return Issued{Identity: seen.identity()}, nil
		}
		issued, overtaken, err := s.issue(ctx, actionCreated, seen, nil, func(now time.Time) (account, trail.Fields) {
			next := newAccount(org, app, seen, now)
			return next, trail.Fields{"client_id": next.id(), "version": next.version}
		})
		if !overtaken || n == changeTries {
			return issued, failure("Create", err)
		}
	}
}

// Rotate gives a client a new secret. The one it has works for graceHours more, 0 to 168;
// 0: not at all, and refresh tokens that were issued before stop working too. At most two
// secrets work: one that was replaced before is dropped, and the reply says so. A last secret
// that nobody fetched is replaced, with its token, and the one before it works for graceHours
// more: whoever lost a token rotates again. A client that was revoked gets a secret again.
//
// Errors: *ValidationError; ErrNotFound for a client without credentials; ErrConflict when
// somebody else changed them at the same time, and then this call wrote nothing;
// *UnavailableError.
func (s *Store) Rotate(ctx context.Context, org, app string, graceHours int) (Rotation, error) {
	ctx, cancel, err := s.change(ctx)
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
	seen, err := s.core.existing(ctx, org, app)
	if err != nil {
		return Rotation{}, failure("Rotate", err)
	}
	void, unfetched, err := s.core.unfetched(ctx, seen)
	if err != nil {
		return Rotation{}, failure("Rotate", err)
	}
	var rotation Rotation
	issued, overtaken, err := s.issue(ctx, actionRotated, seen, void, func(now time.Time) (account, trail.Fields) {
		next, dropped := seen.rotated(now, graceHours, unfetched)
		rotation.GraceUntil, rotation.OldestDropped = next.grace, dropped
		return next, trail.Fields{"client_id": next.id(), "version": next.version, "grace_hours": graceHours}
	})
	if overtaken {
		return Rotation{}, conflict("the credentials of %s were changed by somebody else at the same time; look, and rotate again if they still need it", seen.id())
	}
	if err != nil {
		return rotation, failure("Rotate", err)
	}
	rotation.Issued = issued
	return rotation, nil
}

// issue draws a secret and writes what a client becomes with it, together with the token
// that fetches it, the event and further writes.
func (s *Store) issue(
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
	now := seconds(s.core.now())
	pepper := s.Keys().Pepper(now)
	next, fields := decide(now)
	next.hash, next.handout = s.core.hash(pepper, purposeClient, next.id(), secret), tokenHash(token)
	handout, err := s.core.handout(next, token, secret, now)
	if err != nil {
		return Issued{}, false, err
	}
	if overtaken, err = s.replace(ctx, action, seen, next, fields, append(further, s.core.put(handout, "", nil, nil))...); err != nil {
		return Issued{}, overtaken, err
	}
	return Issued{Identity: next.identity(), Created: true, Token: token, ExpiresAt: now.Add(RetrievalTTL)}, false, nil
}

// replace writes a client in the place of what was seen, with the event and what belongs
// to it.
func (s *Store) replace(
	ctx context.Context, action string, seen, next account, fields trail.Fields, further ...types.TransactWriteItem,
) (overtaken bool, err error) {
	event, err := s.core.event(s.principal, action, next.org, next.app, fields)
	if err != nil {
		return false, err
	}
	condition, values := store.IfAbsent, store.Item(nil)
	names := map[string]string{"#pk": "PK"}
	if seen.revision > 0 {
		condition, names, values = "#revision = :seen", map[string]string{"#revision": attrRevision}, store.Item{":seen": store.Int(seen.revision)}
	}
	writes := append([]types.TransactWriteItem{s.core.put(next.item(), condition, names, values)}, further...)
	return s.core.send(ctx, append(writes, event)...)
}

// Import gives a client that has no credentials the hash of a secret that another system
// made, for Options.ImportedHash to verify.
//
// Errors: *ValidationError, ErrConflict for a client that has credentials,
// *UnavailableError.
func (s *Store) Import(ctx context.Context, org, app string, hash Secret) error {
	ctx, cancel, err := s.change(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if err := validOwner(org, app); err != nil {
		return err
	}
	if _, _, own := parseHash(hash.Reveal()); own || hash.Empty() || len(hash.Reveal()) > maxSecret {
		return invalid("hash", "is not another system's of 1 to %d bytes; give what that system stored", maxSecret)
	}
	seen, err := s.core.load(ctx, ClientID(org, app))
	if err != nil {
		return failure("Import", err)
	}
	overtaken := seen.exists()
	if !overtaken {
		next := newAccount(org, app, seen, seconds(s.core.now()))
		next.hash = hash.Reveal()
		overtaken, err = s.replace(ctx, actionImported, seen, next, trail.Fields{"client_id": next.id(), "version": next.version})
	}
	if overtaken {
		return conflict("%s has credentials; rotate them instead", ClientID(org, app))
	}
	return failure("Import", err)
}
