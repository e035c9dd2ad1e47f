package connect

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bare empties the environment of what the AWS SDK reads from it.
func bare(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
			require.NoError(t, os.Unsetenv(name))
		}
	}
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func TestOptionsThatCannotBeMeant(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"two engines": {Options{Local: true, Endpoint: "http://127.0.0.1:1"}, "leave one of them out"},
		"no scheme":   {Options{Endpoint: "127.0.0.1:8000"}, "not a URL"},
		"no host":     {Options{Endpoint: "http://"}, "not a URL"},
		"other":       {Options{Endpoint: "ftp://example.com"}, "not a URL"},
	} {
		_, err := test.options.Config(t.Context())
		assert.ErrorContains(t, err, test.want, name)
	}
	assert.NoError(t, Options{}.Check())
	assert.NoError(t, Options{Local: true}.Check())
}

// TestEngineOnThisMachine: it asks for nothing that is not there, and an engine elsewhere does.
func TestEngineOnThisMachine(t *testing.T) {
	bare(t)
	for endpoint, here := range map[string]bool{
		"http://127.0.0.1:8000": true, "http://localhost:1": true, "http://[::1]:8000": true, "https://dynamodb.example.com": false, "": false,
		"http://127.0.0.1.example.com": false,
	} {
		o := Options{Endpoint: endpoint}
		assert.Equal(t, here, o.OnThisMachine(), endpoint)
		cfg, err := o.Config(t.Context())
		if !here {
			assert.ErrorContains(t, err, "--region", endpoint)
			continue
		}
		require.NoError(t, err, endpoint)
		assert.Equal(t, "us-east-1", cfg.Region)
		keys, err := cfg.Credentials.Retrieve(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "local", keys.AccessKeyID)
	}
	cfg, err := Options{Local: true, Region: "eu-west-1"}.Config(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "eu-west-1", cfg.Region)
	assert.Equal(t, "DynamoDB at http://127.0.0.1:8000", Options{Local: true}.Where())

	t.Setenv("AWS_ACCESS_KEY_ID", "mine")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	cfg, err = Options{Local: true, Region: "eu-west-1"}.Config(t.Context())
	require.NoError(t, err)
	keys, err := cfg.Credentials.Retrieve(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "mine", keys.AccessKeyID, "credentials that are given are used")
}

func TestProfileThatIsNotThere(t *testing.T) {
	bare(t)
	_, err := Options{Profile: "nobody", Region: "eu-west-1"}.Config(t.Context())
	assert.ErrorContains(t, err, "--profile")
}

// TestIdentity: the name that is given, else the one that AWS knows, else that of the user.
func TestIdentity(t *testing.T) {
	bare(t)
	answer, status := `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:sts::123456789012:assumed-role/ops/ann</Arn><UserId>x</UserId><Account>123456789012</Account>
</GetCallerIdentityResult></GetCallerIdentityResponse>`, http.StatusOK
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "mine")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")

	o := Options{Region: "eu-west-1"}
	identity := func(o Options) (string, error) {
		cfg, err := o.Config(t.Context())
		require.NoError(t, err)
		return o.Identity(t.Context(), cfg)
	}
	who, err := identity(Options{Region: "eu-west-1", Principal: "bob"})
	require.NoError(t, err)
	assert.Equal(t, "bob", who)
	assert.Zero(t, asked, "nobody is asked who needs not be")

	who, err = identity(o)
	require.NoError(t, err)
	assert.Equal(t, "arn:aws:sts::123456789012:assumed-role/ops/ann", who)

	answer, status = `<ErrorResponse><Error><Code>InvalidClientTokenId</Code><Message>unknown</Message></Error></ErrorResponse>`, http.StatusForbidden
	_, err = identity(o)
	assert.ErrorContains(t, err, "--as NAME")

	me, err := user.Current()
	require.NoError(t, err)
	for _, engine := range []Options{{Local: true}, {Endpoint: "https://dynamodb.example.com", Region: "eu-west-1"}} {
		who, err = identity(engine)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(who, me.Username+"@"), who)
	}
}

// TestStreamsOfAnEngine: a stream is followed where its table is, also if the environment
// names the engine for DynamoDB alone; endpoints of AWS serve one service each.
func TestStreamsOfAnEngine(t *testing.T) {
	const engine, other, vpc = "http://127.0.0.1:8137", "http://127.0.0.1:9", "https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com"
	for name, test := range map[string]struct {
		env     map[string]string
		options Options
		want    string
	}{
		"AWS":                          {nil, Options{}, ""},
		"a flag":                       {map[string]string{"AWS_ENDPOINT_URL_DYNAMODB": other}, Options{Endpoint: engine}, engine},
		"the variable of DynamoDB":     {map[string]string{"AWS_ENDPOINT_URL_DYNAMODB": engine}, Options{}, engine},
		"both variables":               {map[string]string{"AWS_ENDPOINT_URL_DYNAMODB": engine, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": other}, Options{}, other},
		"the variable of all services": {map[string]string{"AWS_ENDPOINT_URL": engine}, Options{}, engine},
		"an endpoint of a VPC":         {map[string]string{"AWS_ENDPOINT_URL_DYNAMODB": vpc}, Options{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bare(t)
			for variable, value := range test.env {
				t.Setenv(variable, value)
			}
			test.options.Region = "eu-west-1"
			cfg, err := test.options.Config(t.Context())
			require.NoError(t, err)
			assert.Equal(t, test.want, aws.ToString(test.options.StreamsOf(cfg).Options().BaseEndpoint))
		})
	}
}
