package grpclimit_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/dynalimit/dynalimit/grpclimit"
	"github.com/dynalimit/dynalimit/httplimit"
	"github.com/dynalimit/dynalimit/internal/schema"
)

var anas = httplimit.HashKey("ana's")

// TestAPIKey: what is no key has its tests in httplimit.
func TestAPIKey(t *testing.T) {
	for _, test := range []struct {
		name, want string
		received   metadata.MD
	}{
		{"authorization", anas, metadata.Pairs("authorization", "Bearer ana's")},
		{"X-Api-Key", anas, metadata.Pairs("x-api-key", "ana's")},
		{"x-api-key", "", metadata.Pairs("x-api-key", "ana's", "x-api-key", "another")},
		{"x-api-key", "", nil},
	} {
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("x-api-key", "of the client"))
		if test.received != nil {
			ctx = metadata.NewIncomingContext(ctx, test.received)
		}
		assert.Equal(t, test.want, grpclimit.APIKey(test.name)(ctx, nil), "%s %v", test.name, test.received)
	}
}

func TestAddress(t *testing.T) {
	find := grpclimit.Address(netip.MustParsePrefix("10.0.0.0/8"))
	local := grpclimit.Address(netip.MustParsePrefix("127.0.0.1/32"))
	socket := &net.UnixAddr{Name: "@", Net: "unix"}
	for _, test := range []struct {
		peer            net.Addr
		forwarded, want string
	}{
		{&net.TCPAddr{IP: net.ParseIP("203.0.113.7"), Port: 80}, "198.51.100.1", "ip:203.0.113.7"},
		{&net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 80}, "192.0.2.1, 198.51.100.1", "ip:198.51.100.1"},
		{&net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 80}, "[2001:db8::7]:51234", "ip:2001:db8::"},
		{socket, "198.51.100.1", "ip:127.0.0.1"},
		{nil, "", ""},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-forwarded-for", test.forwarded))
		assert.Equal(t, test.want, find(peer.NewContext(ctx, &peer.Peer{Addr: test.peer}), nil))
	}
	assert.Empty(t, find(t.Context(), nil), "without a peer")
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-forwarded-for", "198.51.100.1"))
	assert.Equal(t, "ip:198.51.100.1", local(peer.NewContext(ctx, &peer.Peer{Addr: socket}), nil), "a proxy on a Unix socket")
}

// FuzzMethod: whatever a method is called, a resource can be.
func FuzzMethod(f *testing.F) {
	for method, want := range map[string]string{
		"/grpc.testing.TestService/UnaryCall": "grpc.testing.TestService/UnaryCall",
		"/_hidden.Service/Call":               "xhidden.Service/Call",
		"no slash":                            "no_slash",
		"//x":                                 "xx",
		"":                                    "unrouted",
		"/a/" + strings.Repeat("b", 300):      "xbc8a37094f8dc3b9-" + strings.Repeat("b", 238),
	} {
		f.Add(method)
		assert.Equal(f, want, grpclimit.Method(f.Context(), &grpclimit.Call{Method: method}))
	}
	f.Fuzz(func(t *testing.T, method string) {
		got := grpclimit.Method(t.Context(), &grpclimit.Call{Method: method})
		assert.Empty(t, schema.CheckResource(got))
	})
}
