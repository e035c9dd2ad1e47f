package dynalimit

import (
	"cmp"
	"log/slog"
	"net/http"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// fewConnections is the number of idle connections that the SDK's own client keeps.
const fewConnections = 10

// warnOfFewConnections logs a warning for a client with so few idle connections that a busy process
// opens new ones all the time, with a handshake each.
func warnOfFewConnections(client DynamoDB, log *slog.Logger) {
	c, ok := client.(*dynamodb.Client)
	if !ok {
		return
	}
	var transport *http.Transport
	switch h := c.Options().HTTPClient.(type) {
	case *awshttp.BuildableClient:
		transport = h.GetTransport()
	case *http.Client:
		transport, _ = h.Transport.(*http.Transport)
	}
	if transport == nil {
		return
	}
	if n := cmp.Or(transport.MaxIdleConnsPerHost, http.DefaultMaxIdleConnsPerHost); n <= fewConnections {
		log.Warn("the client of DynamoDB keeps few idle connections, so a busy process makes a new one for many requests; make the client with awsclient.New",
			slog.Int("idle_connections", n))
	}
}
