// Package origin finds the address that a request comes from, behind proxies that name it.
package origin

import (
	"iter"
	"net/netip"
	"strings"
)

// Proxies are the networks of proxies that are trusted to name the address of their peer.
type Proxies []netip.Prefix

// NewProxies returns trusted proxies in these networks. It converts IPv4 networks written as IPv6 to IPv4.
func NewProxies(networks []netip.Prefix) Proxies {
	var p Proxies
	for _, n := range networks {
		p = append(p, UnmapNetwork(n))
	}
	return p
}

// UnmapNetwork returns a network in the form in which requests have their addresses: an IPv4 network written as
// IPv6, such as ::ffff:10.0.0.0/104, becomes IPv4.
func UnmapNetwork(n netip.Prefix) netip.Prefix {
	if n.Addr().Is4In6() && n.Bits() >= 96 {
		return netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
	}
	return n
}

// Contains reports whether an address is in one of the networks.
func (p Proxies) Contains(a netip.Addr) bool {
	for _, network := range p {
		if network.Contains(a) {
			return true
		}
	}
	return false
}

// FindCaller returns the address of a request's caller: the last one on its way that is not a trusted proxy.
// The list hops has the addresses that the proxies named, from the nearest on. If a trusted proxy named no
// valid address, it returns that proxy's and false.
func (p Proxies) FindCaller(peer netip.Addr, hops iter.Seq[string]) (a netip.Addr, ok bool) {
	if !p.Contains(peer) {
		return peer, true
	}
	a = peer
	for text := range hops {
		next, ok := ParseAddress(text)
		if !ok {
			return a, false
		}
		if a = next; !p.Contains(a) {
			break
		}
	}
	return a, true
}

// EntityKey returns the id of the entity of a caller, such as "ip:203.0.113.7"; "" if its address cannot be
// read. The network is that of the connection, such as "tcp". The list forwardedFor has the lines of
// X-Forwarded-For.
func (p Proxies) EntityKey(peer, network string, forwardedFor []string) string {
	from, ok := ParsePeer(peer, network)
	if !ok {
		return ""
	}
	if from, ok = p.FindCaller(from, Hops(forwardedFor)); !ok {
		return ""
	}
	return "ip:" + HostAddress(from).String()
}

// ParsePeer returns the address of a connection's other end, from its text. A Unix socket counts as 127.0.0.1.
// ok is false for an invalid address.
func ParsePeer(text, network string) (a netip.Addr, ok bool) {
	if strings.HasPrefix(network, "unix") {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	return ParseAddress(text)
}

// Hops returns the elements of the lines of X-Forwarded-For, from the last to the first. They may have spaces.
func Hops(lines []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := len(lines) - 1; i >= 0; i-- {
			for rest, more := lines[i], true; more; {
				var hop string
				if cut := strings.LastIndexByte(rest, ','); cut < 0 {
					hop, more = rest, false
				} else {
					rest, hop = rest[:cut], rest[cut+1:]
				}
				if !yield(hop) {
					return
				}
			}
		}
	}
}

// ParseAddress parses an address as proxies write it: IPv6 in brackets or without, and with a port or without.
// The result has no zone, and IPv4 in IPv6 becomes IPv4. ok is false for any other text.
func ParseAddress(text string) (a netip.Addr, ok bool) {
	text = strings.TrimSpace(text)
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap().WithZone(""), true
	}
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		text += ":0"
	}
	withPort, err := netip.ParseAddrPort(text)
	return withPort.Addr().Unmap().WithZone(""), err == nil
}

// translated is where the addresses of IPv4 are for hosts that have IPv6 alone (RFC 6052).
var translated = netip.MustParsePrefix("64:ff9b::/96")

// HostAddress returns the address that stands for the host of a. One host may have a whole IPv6 network of 64
// bits: its first address stands for it. An address translated from IPv4 becomes that of IPv4.
func HostAddress(a netip.Addr) netip.Addr {
	if a = a.Unmap().WithZone(""); !a.Is6() {
		return a
	}
	if translated.Contains(a) {
		bytes := a.As16()
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	network, _ := a.Prefix(64) // an address of IPv6 has as many bits
	return network.Addr()
}
