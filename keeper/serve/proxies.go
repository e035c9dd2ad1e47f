package keeper

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/origin"
)

// The headers in which proxies say for whom they ask. One is believed: a proxy that writes
// one passes on the other as its client wrote it.
const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
)

// proxies are those that are believed about the addresses of their clients.
type proxies struct {
	networks origin.Proxies
	header   string
}

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
		network = origin.Network(network)
		if network.Bits() == 0 {
			return nil, fmt.Errorf("behind_proxy: %s is everybody, who could then claim any address: name the networks of the proxies", text)
		}
		p.networks = append(p.networks, network)
	}
	return p, nil
}

// address is where a request is from: the last one on its way that is no trusted proxy.
// What is left of that, anybody may have written. A proxy that hides its client, or writes
// nonsense, answers for it.
func (p *proxies) address(r *http.Request) netip.Addr {
	peer, ok := origin.Parse(r.RemoteAddr)
	if !ok {
		return netip.Addr{}
	}
	hops := p.hops(r.Header)
	slices.Reverse(hops)
	from, _ := p.networks.Find(peer, slices.Values(hops))
	return from
}

// hops are the addresses that the header has, from the client on.
func (p *proxies) hops(h http.Header) []string {
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

// forNode is who is named by for= in an element of Forwarded (RFC 7239); "" for nobody.
func forNode(element string) string {
	for _, pair := range unquotedSplit(element, ';') {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// unquotedSplit parts a header's value where a separator is in no quoted string: a proxy
// that says which host was asked for quotes what the client wrote. It reads from the end,
// where the nearest proxy has written, so that a quote that a client left open ends nothing
// of that.
func unquotedSplit(text string, separator byte) []string {
	var parts []string
	end, quoted := len(text), false
	for i := len(text) - 1; i >= 0; i-- {
		switch {
		case text[i] == '"' && !backslashed(text[:i]):
			quoted = !quoted
		case text[i] == separator && !quoted:
			parts, end = append(parts, text[i+1:end]), i
		}
	}
	parts = append(parts, text[:end])
	slices.Reverse(parts)
	return parts
}

// backslashed reports whether what follows a text in a quoted string stands for itself.
func backslashed(before string) bool {
	return (len(before)-len(strings.TrimRight(before, `\`)))%2 == 1
}
