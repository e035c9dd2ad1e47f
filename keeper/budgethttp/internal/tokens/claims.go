// Package tokens is what a bearer token says of who carries it.
package tokens

import "time"

// Kind is what a token is good for.
type Kind string

// The kinds.
const (
	Access  Kind = "access"  // authorises requests
	Refresh Kind = "refresh" // gets new access tokens, and nothing else
)

// Claims are what a token says, once it is known to be genuine, in force and not
// revoked.
type Claims struct {
	// ClientID is whose credentials the token was issued for.
	ClientID string
	// Org is the organisation's id.
	Org string
	// App is the app's id; empty for a token of the whole organisation.
	App string
	// Kind is what the token is good for.
	Kind Kind
	// ID is the token's own id (jti).
	ID string
	// Session is the id of the login it comes from (sid).
	Session string
	// Version is the version of the credentials it was issued for (cv).
	Version int64
	// Issued and Expires bound the time in which it is in force.
	Issued, Expires time.Time
}
