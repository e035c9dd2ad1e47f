package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxSecret is the longest API key, in bytes: what is longer is nobody's.
const maxSecret = 1024

// APIKey finds the caller by the secret that a header holds, as in "X-Api-Key: secret" or
// "Authorization: Bearer secret". The key is HashKey of it: "" without the header, of a secret
// above 1 KiB, and if the header is there twice.
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

// HashKey is the id of the entity of an API key: 128 bits of its SHA-256, from which a key that
// was drawn at random cannot be found. It is for keys, not for passwords.
func HashKey(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return "key-" + hex.EncodeToString(sum[:16])
}

// Address finds the caller by the address that a request comes from, such as "ip:203.0.113.7",
// or "ip:2001:db8:1:2::" for all of an IPv6 network of 64 bits, which one host may have whole.
//
// Behind proxies, name the networks that they are in: if the peer is in one, X-Forwarded-For is
// read from its end, and the first address that is in none of them is the caller. A header
// counts no further, because what stands before it is the client's own writing. With none,
// nothing is trusted, and the peer is the caller. Each proxy has to append its peer to the
// header; Forwarded (RFC 7239) is not read. The key is "" if the address cannot be read.
func Address(trusted ...netip.Prefix) func(*http.Request) string {
	trusted = slices.Clone(trusted)
	proxy := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return func(r *http.Request) string {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return ""
		}
		at := plain(peer.Addr())
		for i := len(r.Header["X-Forwarded-For"]) - 1; i >= 0 && proxy(at); i-- {
			rest := r.Header["X-Forwarded-For"][i]
			for more := true; more && proxy(at); {
				var hop string
				rest, hop, more = cutLast(rest)
				a, err := netip.ParseAddr(strings.TrimSpace(hop))
				if err != nil {
					return ""
				}
				at = plain(a)
			}
		}
		return addressKey(at)
	}
}

// cutLast cuts the last element off a list; more reports whether others are left.
func cutLast(list string) (rest, last string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return "", list, false
	}
	return list[:i], list[i+1:], true
}

// plain is an address without its zone and as IPv4 if it is one.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func addressKey(a netip.Addr) string {
	if a.Is6() {
		if network, err := a.Prefix(64); err == nil {
			a = network.Addr()
		}
	}
	return "ip:" + a.String()
}
