package grpclimit

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/dynalimit/dynalimit/httplimit"
	"github.com/dynalimit/dynalimit/internal/origin"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// APIKey returns a function for Options.Key that takes the caller from the secret in a server's received
// metadata, as in "x-api-key: secret" or "authorization: Bearer secret". Its result is httplimit.HashKey of the
// secret, so that it is one caller over HTTP and gRPC. It is "" without the secret, for one above 1 KiB, and
// for two. At a client it is the caller of the handler that makes the call.
func APIKey(name string) func(context.Context, *Call) string {
	find := httplimit.APIKey(name)
	return func(ctx context.Context, _ *Call) string {
		return find(&http.Request{Header: http.Header{http.CanonicalHeaderKey(name): metadata.ValueFromIncomingContext(ctx, name)}})
	}
}

// Address returns a function for Options.Key that takes the caller from the client's address, as
// httplimit.Address does. Behind proxies in the trusted networks it reads the metadata x-forwarded-for from its
// end. Its result is "" if the address cannot be read.
func Address(trusted ...netip.Prefix) func(context.Context, *Call) string {
	proxies := origin.NewProxies(trusted)
	return func(ctx context.Context, _ *Call) string {
		p, ok := peer.FromContext(ctx)
		if !ok || p.Addr == nil {
			return ""
		}
		return proxies.EntityKey(p.Addr.String(), p.Addr.Network(), metadata.ValueFromIncomingContext(ctx, "x-forwarded-for"))
	}
}

// Method returns the method of a call as its resource, for Options.Resource: "/package.Service/Method" is
// "package.Service/Method", and methods that the server lacks are "unrouted". A name above the length of a
// resource keeps its end, behind a hash of all of it.
func Method(_ context.Context, call *Call) string {
	name := strings.TrimPrefix(call.Method, "/")
	if call.Unknown || name == "" {
		return "unrouted"
	}
	return schema.ResourceName(name)
}
