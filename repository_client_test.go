package dynalimit_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/awsclient"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/leanddb"
)

// The SDK's own client keeps 10 idle connections, a plain transport 2: an operator hears of it.
func TestClientsWithFewConnectionsAreTold(t *testing.T) {
	cfg := aws.Config{Region: "eu-central-1", Credentials: aws.AnonymousCredentials{}}
	over := func(transport *http.Transport) *dynamodb.Client {
		cfg := cfg
		cfg.HTTPClient = &http.Client{Transport: transport}
		return dynamodb.NewFromConfig(cfg)
	}
	for name, test := range map[string]struct {
		client dynalimit.DynamoDB
		told   int
	}{
		"the SDK's own":   {dynamodb.NewFromConfig(cfg), 1},
		"a plain one":     {over(new(http.Transport)), 1},
		"a large pool":    {over(&http.Transport{MaxIdleConnsPerHost: 64}), 0},
		"of awsclient":    {awsclient.FromConfig(cfg), 0},
		"of ddbmem":       {ddbmem.New().Client(), 0},
		"of leanddb":      {leanddb.New(dynamodb.NewFromConfig(cfg)), 1},
		"no SDK's client": {struct{ dynalimit.DynamoDB }{ddbmem.New().Client()}, 0},
	} {
		var logged bytes.Buffer
		_, err := dynalimit.NewRepository(test.client, "limits", &dynalimit.RepositoryOptions{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		require.NoError(t, err)
		assert.Equal(t, test.told, strings.Count(logged.String(), "few idle connections"), "%s: %s", name, logged.String())
	}
}
