package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/dynalimit/dynalimit/internal/origin"
)

// maxSecret is the longest API key, in bytes: a longer one is a stranger's.
const maxSecret = 1024

// APIKey returns a function for Options.Key that takes the caller from the secret in a header, as in
// "X-Api-Key: secret" or "Authorization: Bearer secret". Its result is HashKey of the secret: "" without the
// header, for a secret above 1 KiB, and if the header is there twice.
func APIKey(header string) func(*http.Request) string {
	header = http.CanonicalHeaderKey(header)
	return func(r *http.Request) string {
		values := r.Header[header]
		if len(values) != 1 {
			return ""
		}
		secret := values[0]
		if scheme, rest, ok := strings.Cut(secret, " "); ok && strings.EqualFold(scheme, "Bearer") {
			secret = strings.TrimSpace(rest)
		}
		if secret == "" || len(secret) > maxSecret {
			return ""
		}
		return HashKey(secret)
	}
}

// HashKey returns the id of the entity of an API key: "key-" and 128 bits of its SHA-256, which do not reveal a
// random key. It is for keys, not for passwords.
func HashKey(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return "key-" + hex.EncodeToString(sum[:16])
}

// Address finds the caller by the client's address, such as "ip:203.0.113.7",
// or "ip:2001:db8:1:2::" for all of an IPv6 network of 64 bits, because one host may have a whole one. An
// IPv4 address that was translated into 64:ff9b::/96 is the IPv4 address.
//
// Behind proxies, name the networks of the proxies. If the peer is in one of them, Address reads
// X-Forwarded-For from its end, and the first address outside of them is the caller. It
// ignores the rest of the header, which the client wrote itself. Without networks
// it trusts no header, and the peer is the caller. A peer on a Unix socket counts as 127.0.0.1:
// trust that for a proxy on this machine. Each proxy has to append its peer to the header, with
// a port or without; Forwarded (RFC 7239) is not read. The key is "" if the address cannot be read.
func Address(trusted ...netip.Prefix) func(*http.Request) string {
	proxies := origin.NewProxies(trusted)
	return func(r *http.Request) string {
		network := ""
		if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			network = at.Network()
		}
		return proxies.EntityKey(r.RemoteAddr, network, r.Header["X-Forwarded-For"])
	}
}
