// Package credentials stores the credentials of organisations and apps: client ids and their
// secrets, one-time tokens to retrieve a secret, provisioning keys for administrators, and
// revoked tokens. It stores them in the control table of package budget, in separate items, so
// that no change of a configuration affects them.
//
// A secret is 256 random bits. The table contains only its HMAC-SHA-256 under a pepper, which
// is never in the table. A Secret is redacted wherever it is printed.
//
// All requests of a process share a Store. Create gives a client its first secret, Rotate a
// further one, Retrieve returns a new secret once, Verify checks a login, and Revoke ends the
// credentials. CreateKey, VerifyKey and RevokeKey do the same for provisioning keys.
// RevokeToken and RevokeSession end valid tokens, and Revoked reports whether a token was
// ended.
package credentials
