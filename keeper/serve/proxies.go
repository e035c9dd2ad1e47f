package keeper

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/origin"
)

// The headers in which proxies report their clients. Only one is trusted: a proxy that writes
// one passes the other on unchanged from its client.
const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
)

// proxies are the trusted proxies.
type proxies struct {
	networks origin.Proxies
	header   string
}

// newProxies returns the trusted proxies: networks as prefixes or single addresses, and the header that they
// write. It returns an error for an unknown header, a malformed network, and one that contains every address.
func newProxies(networks []string, header string) (*proxies, error) {
	p := &proxies{header: http.CanonicalHeaderKey(header)}
	if p.header != forwardedFor && p.header != forwarded {
		return nil, fmt.Errorf("forwarded_header %q is not known: give %s or %s, whichever the proxies write", header, forwardedFor, forwarded)
	}
	for _, text := range networks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			address, bad := netip.ParseAddr(text)
			if bad != nil {
				return nil, fmt.Errorf("behind_proxy: %q is no network: write it like 10.0.0.0/8, or an address", text)
			}
			network = netip.PrefixFrom(address, address.BitLen())
		}
		if network.Addr().Is4In6() && network.Bits() < 96 {
			return nil, fmt.Errorf("behind_proxy: %q is no network of IPv4 nor of IPv6: write it like 10.0.0.0/8", text)
		}
		network = origin.UnmapNetwork(network)
		if network.Bits() == 0 {
			return nil, fmt.Errorf("behind_proxy: %s is everybody, who could then claim any address: name the networks of the proxies", text)
		}
		p.networks = append(p.networks, network)
	}
	return p, nil
}

// clientAddress returns the client's address of a request: the nearest one on its way that is not a trusted
// proxy. If a proxy names none or an invalid one, the proxy's own counts. An unreadable connection address
// gives the zero address.
func (p *proxies) clientAddress(r *http.Request) netip.Addr {
	peer, ok := origin.ParseAddress(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	hops := p.forwardedHops(r.Header)
	slices.Reverse(hops)
	from, _ := p.networks.FindCaller(peer, slices.Values(hops))
	return from
}

// forwardedHops returns the addresses in the trusted header as written, from the client to the last proxy; the
// Forwarded header's come from for=. It returns nil without the header, and validates nothing.
func (p *proxies) forwardedHops(h http.Header) []string {
	all := strings.Join(h.Values(p.header), ",")
	if all == "" {
		return nil
	}
	if p.header == forwardedFor {
		return strings.Split(all, ",")
	}
	parts := unquotedSplit(all, ',')
	for i, part := range parts {
		parts[i] = forNode(part)
	}
	return parts
}

// forNode returns the unquoted value of for= in one element of a Forwarded header (RFC 7239), or "" without it.
// It does not check that the value is an address.
func forNode(element string) string {
	for _, pair := range unquotedSplit(element, ';') {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// unquotedSplit splits a header's value at separators outside quoted strings, because a proxy
// quotes the requested host as its client wrote it. It reads from the end, where the nearest
// proxy has written, so that an unclosed quote of a client cannot affect that part.
func unquotedSplit(text string, separator byte) []string {
	var parts []string
	end, quoted := len(text), false
	for i := len(text) - 1; i >= 0; i-- {
		switch {
		case text[i] == '"' && !endsWithEscape(text[:i]):
			quoted = !quoted
		case text[i] == separator && !quoted:
			parts, end = append(parts, text[i+1:end]), i
		}
	}
	parts = append(parts, text[:end])
	slices.Reverse(parts)
	return parts
}

// endsWithEscape reports whether the character after before is escaped: before ends with an odd number of
// backslashes.
func endsWithEscape(before string) bool {
	return (len(before)-len(strings.TrimRight(before, `\`)))%2 == 1
}
