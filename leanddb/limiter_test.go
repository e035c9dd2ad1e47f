package leanddb_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/leanddb"
)

// The SDK sends the first write of a limiter, and this package the others, also those that fail.
func TestLimiterSendsLeanRequests(t *testing.T) {
	db := ddbmem.New()
	t.Cleanup(db.Close)
	var bySDK []bool
	client := func() *leanddb.Client {
		return leanddb.New(db.Client(func(o *dynamodb.Options) {
			o.Credentials = credentials.NewStaticCredentialsProvider("key", "secret", "")
			o.HTTPClient = smithyhttp.ClientDoFunc(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
					bySDK = append(bySDK, middleware.GetOperationName(r.Context()) != "")
				}
				return db.Do(r)
			})
		}))
	}
	limiter := func() *dynalimit.RateLimiter {
		repo, err := dynalimit.NewRepository(client(), "limits", nil)
		require.NoError(t, err)
		_ = repo.CreateTable(t.Context()) // the second limiter finds it
		l, err := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)}})
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close(t.Context()) })
		return l
	}
	acquire := func(l *dynalimit.RateLimiter, amount int64) error {
		_, err := l.Acquire(t.Context(), "user", "model", dynalimit.Amounts{"rpm": amount})
		return err
	}
	one, other := limiter(), limiter()
	require.NoError(t, acquire(one, 1))
	require.NoError(t, acquire(one, 1))
	require.NoError(t, acquire(other, 7))
	require.ErrorIs(t, acquire(one, 5), dynalimit.ErrLimitExceeded, "its write is refused")
	assert.Equal(t, []bool{true, false, true, false}, bySDK)
}
