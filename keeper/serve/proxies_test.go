package keeper

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAddress: what a header says counts as far as trusted proxies wrote it.
func TestAddress(t *testing.T) {
	trusted := []string{"10.0.0.0/8", "192.0.2.7", "fd00::/8", "fe80::/10"}
	for name, test := range map[string]struct {
		header string // X-Forwarded-For unless it is said
		peer   string
		values []string // of the header
		other  string   // of the other header
		want   string
	}{
		"no proxy":                          {"", "203.0.113.9:4000", nil, "", "203.0.113.9"},
		"a client that claims another":      {"", "203.0.113.9:4000", []string{"198.51.100.1"}, "", "203.0.113.9"},
		"a client of a proxy":               {"", "10.1.2.3:4000", []string{"198.51.100.1"}, "", "198.51.100.1"},
		"a client that lies to the proxy":   {"", "10.1.2.3:4000", []string{"1.2.3.4, 198.51.100.1"}, "", "198.51.100.1"},
		"a client that claims to be inside": {"", "10.1.2.3:4000", []string{"10.9.9.9, 198.51.100.1"}, "", "198.51.100.1"},
		"a chain of proxies":                {"", "10.1.2.3:4000", []string{"1.2.3.4, 198.51.100.1, 192.0.2.7"}, "", "198.51.100.1"},
		"lines that follow each other":      {"", "10.1.2.3:4000", []string{"1.2.3.4", "198.51.100.1", "192.0.2.7"}, "", "198.51.100.1"},
		"a proxy that says nothing":         {"", "10.1.2.3:4000", nil, "", "10.1.2.3"},
		"nonsense before the proxy":         {"", "10.1.2.3:4000", []string{"1.2.3.4, <script>"}, "", "10.1.2.3"},
		"nonsense behind the client":        {"", "10.1.2.3:4000", []string{"<script>, 198.51.100.1"}, "", "198.51.100.1"},
		"everybody trusted":                 {"", "10.1.2.3:4000", []string{"10.5.5.5, 10.4.4.4"}, "", "10.5.5.5"},
		"a port":                            {"", "10.1.2.3:4000", []string{"198.51.100.1:999"}, "", "198.51.100.1"},
		"IPv6":                              {"", "[fd00::1]:4000", []string{"2001:db8::5"}, "", "2001:db8::5"},
		"IPv6 with a port":                  {"", "[fd00::1]:4000", []string{"[2001:db8::5]:77"}, "", "2001:db8::5"},
		"IPv4 in IPv6":                      {"", "[::ffff:10.1.2.3]:4000", []string{"::ffff:198.51.100.1"}, "", "198.51.100.1"},
		"the header that no proxy writes":   {"", "10.1.2.3:4000", []string{"198.51.100.1"}, "for=1.2.3.4", "198.51.100.1"},
		"Forwarded":                         {"Forwarded", "10.1.2.3:4000", []string{`for=1.2.3.4, for=198.51.100.1;proto=https;by=10.1.2.3`}, "", "198.51.100.1"},
		"Forwarded, IPv6":                   {"Forwarded", "10.1.2.3:4000", []string{`For="[2001:db8::5]:4711"`}, "", "2001:db8::5"},
		"Forwarded, hidden":                 {"Forwarded", "10.1.2.3:4000", []string{`for=1.2.3.4, for=_hidden`}, "", "10.1.2.3"},
		"Forwarded, a host with a comma":    {"Forwarded", "10.1.2.3:4000", []string{`for=198.51.100.1;host="a,for=1.2.3.4"`}, "", "198.51.100.1"},
		"Forwarded, a host with a for":      {"Forwarded", "10.1.2.3:4000", []string{`host="a;for=1.2.3.4";for=198.51.100.1`}, "", "198.51.100.1"},
		"Forwarded, an escaped quote":       {"Forwarded", "10.1.2.3:4000", []string{`for=198.51.100.1;host="a\",for=1.2.3.4"`}, "", "198.51.100.1"},
		"Forwarded, an open quote":          {"Forwarded", "10.1.2.3:4000", []string{`for=1.2.3.4;host="`, `for=198.51.100.1;host="b"`}, "", "198.51.100.1"},
		"Forwarded, an open quote, no more": {"Forwarded", "10.1.2.3:4000", []string{`for=1.2.3.4;host="`, `for=198.51.100.1`}, "", "198.51.100.1"},
		"a proxy on the same link":          {"", "[fe80::1%eth0]:4000", []string{"198.51.100.1"}, "", "198.51.100.1"},
		"Forwarded, the other header":       {"Forwarded", "10.1.2.3:4000", []string{`for=198.51.100.1`}, "1.2.3.4", "198.51.100.1"},
	} {
		header, other := forwardedFor, forwarded
		if test.header != "" {
			header, other = forwarded, forwardedFor
		}
		p, err := newProxies(trusted, header)
		require.NoError(t, err)
		r := &http.Request{RemoteAddr: test.peer, Header: http.Header{header: test.values}}
		if test.other != "" {
			r.Header.Set(other, test.other)
		}
		assert.Equal(t, test.want, p.clientAddress(r).String(), name)
	}
}

// TestNetworksOfIPv4InIPv6: however a network is written it is the one that requests come
// from, and everybody is refused in each way.
func TestNetworksOfIPv4InIPv6(t *testing.T) {
	for _, text := range []string{"::ffff:10.0.0.0/104", "::ffff:10.1.2.3"} {
		p, err := newProxies([]string{text}, forwardedFor)
		require.NoError(t, err, text)
		r := &http.Request{RemoteAddr: "10.1.2.3:4000", Header: http.Header{forwardedFor: {"198.51.100.1"}}}
		assert.Equal(t, "198.51.100.1", p.clientAddress(r).String(), text)
	}
	for _, text := range []string{"::ffff:0.0.0.0/96", "::ffff:0.0.0.0/64", "::/0"} {
		_, err := newProxies([]string{text}, forwardedFor)
		assert.Error(t, err, text)
	}
}
