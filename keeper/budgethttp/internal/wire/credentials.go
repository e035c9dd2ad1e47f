package wire

import (
	"time"

	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// Issued is a client id, and the retrieval token of a new secret.
type Issued struct {
	ClientID  string    `json:"client_id,omitempty" doc:"What it logs in as"`
	Token     string    `json:"retrieval_token,omitempty" doc:"Fetches the new secret, once; absent: there is no new one"`
	ExpiresAt time.Time `json:"retrieval_token_expires_at,omitzero" doc:"When it cannot be used any longer"`
}

// NewIssued converts issued credentials for a response, with the expiry in UTC. It reveals the retrieval token,
// because the response is for its recipient.
func NewIssued(i credentials.Issued) Issued {
	return Issued{ClientID: i.ClientID, Token: i.Token.Reveal(), ExpiresAt: i.ExpiresAt.UTC()}
}

// Rotate requests a new secret.
type Rotate struct {
	GraceHours int `json:"grace_hours" minimum:"0" maximum:"168" doc:"How long the secret before it works beside it; 0: not at all, and refresh tokens that were issued for it end too" example:"24"`
}

// Rotation is a new secret that replaces another.
type Rotation struct {
	Issued
	GraceUntil    time.Time `json:"grace_until,omitzero" doc:"When the secret before it stops working; absent: it has"`
	OldestDropped bool      `json:"oldest_dropped" doc:"The secret before the last one was still in its grace, and works no longer"`
}

// NewRotation converts the result of a rotation for a response.
func NewRotation(r credentials.Rotation) Rotation {
	return Rotation{NewIssued(r.Issued), r.GraceUntil.UTC(), r.OldestDropped}
}

// Retrieve requests a secret.
type Retrieve struct {
	Token string `json:"token" minLength:"1" maxLength:"128" doc:"The retrieval token"`
}

// Secret is a client's credentials.
type Secret struct {
	ClientID string `json:"client_id" doc:"What it logs in as"`
	Secret   string `json:"client_secret" doc:"What it logs in with. Nobody can read it again"`
}
