// Package tokens signs and verifies bearer tokens.
package tokens

import "time"

// Kind is the purpose of a token.
type Kind string

// The kinds.
const (
	Access  Kind = "access"  // authorises requests
	Refresh Kind = "refresh" // gets new access tokens only
)

// Claims are the contents of a verified, valid token.
type Claims struct {
	// ClientID is the client that the token was issued to.
	ClientID string
	// Org is the organisation's id.
	Org string
	// App is the app's id. It is empty for a token of the whole organisation.
	App string
	// Kind is the purpose of the token.
	Kind Kind
	// ID is the token's id (jti).
	ID string
	// Session is the id of the login (sid).
	Session string
	// Version is the version of the client's credentials at issue (cv).
	Version int64
	// Issued and Expires bound the validity of the token.
	Issued, Expires time.Time
}
