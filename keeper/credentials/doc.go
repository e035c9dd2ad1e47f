// Package credentials keeps what organisations and apps log in with: client ids and their
// secrets, one-time tokens by which a secret is fetched, the keys of those who administer,
// and tokens that were revoked. It keeps them in the control table of package budget, in
// items of their own, so that no change of a configuration can touch them.
//
// A secret is 256 random bits. The table has its HMAC-SHA-256 under a pepper that the
// table never sees, and nothing else by which it could be found: Secret is redacted
// wherever it is printed.
//
// A Store is shared by all requests of a process. Create gives a client its first secret,
// Rotate a further one, Retrieve hands a new secret out once, Verify is the login, and
// Revoke ends it. CreateKey, VerifyKey and RevokeKey do the same for the keys of
// administrators. RevokeToken and RevokeSession end tokens that are still good; Revoked
// says whether one was ended.
package credentials
