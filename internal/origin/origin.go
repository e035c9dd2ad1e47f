// Package origin finds the address that a request comes from, behind proxies that name it.
package origin

import (
	"iter"
	"net/netip"
	"strings"
)

// Proxies are the networks of proxies that are trusted to name the address of their peer.
type Proxies []netip.Prefix

// NewProxies returns proxies in the networks.
func NewProxies(networks []netip.Prefix) Proxies {
	var p Proxies
	for _, n := range networks {
		p = append(p, Network(n))
	}
	return p
}

// Network returns a network as the addresses of requests are in it: ::ffff:10.0.0.0/104 is a network
// of IPv4, which is written as one of IPv6.
func Network(n netip.Prefix) netip.Prefix {
	if n.Addr().Is4In6() && n.Bits() >= 96 {
		return netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
	}
	return n
}

// Trust reports whether an address is in one of the networks.
func (p Proxies) Trust(a netip.Addr) bool {
	for _, network := range p {
		if network.Contains(a) {
			return true
		}
	}
	return false
}

// Find returns the caller of a request: the last address on its way that is not a trusted proxy.
// hops are the addresses that the proxies named, from the nearest on. ok is false if a trusted
// proxy named no address; a is that proxy's then.
func (p Proxies) Find(peer netip.Addr, hops iter.Seq[string]) (a netip.Addr, ok bool) {
	if !p.Trust(peer) {
		return peer, true
	}
	a = peer
	for text := range hops {
		next, ok := Parse(text)
		if !ok {
			return a, false
		}
		if a = next; !p.Trust(a) {
			break
		}
	}
	return a, true
}

// Key returns the id of the entity of a caller, such as "ip:203.0.113.7", or "" if its address
// cannot be read. network is that of the connection, such as "tcp", and forwardedFor are the lines
// of X-Forwarded-For.
func (p Proxies) Key(peer, network string, forwardedFor []string) string {
	from, ok := Peer(peer, network)
	if !ok {
		return ""
	}
	if from, ok = p.Find(from, Hops(forwardedFor)); !ok {
		return ""
	}
	return "ip:" + Host(from).String()
}

// Peer returns the address of a connection's other end. That of a Unix socket is on this machine,
// and counts as 127.0.0.1.
func Peer(text, network string) (a netip.Addr, ok bool) {
	if strings.HasPrefix(network, "unix") {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	return Parse(text)
}

// Hops returns the elements of X-Forwarded-For from its end.
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

// Parse reads an address as proxies write them: IPv6 in brackets or without, and with a port or
// without. The address has no zone, and one of IPv4 in IPv6 is of IPv4.
func Parse(text string) (a netip.Addr, ok bool) {
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

// Host returns the address that stands for the host of a: one host may have a whole network of IPv6
// with 64 bits. An address that was translated from IPv4 is that of IPv4.
func Host(a netip.Addr) netip.Addr {
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
