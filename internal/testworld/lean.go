package testworld

import (
	"os"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/leanddb"
)

// Lean is the variable that makes limiters under test use package leanddb; its value is 1.
const Lean = "DYNALIMIT_TEST_LEAN"

// ClientOf returns c or, if DYNALIMIT_TEST_LEAN is 1 and c is an SDK client, a leanddb.Client over it that
// signs with test credentials. C is the interface that the repository needs.
func ClientOf[C any](c C) C {
	sdk, ok := any(c).(*dynamodb.Client)
	if !ok || sdk == nil || os.Getenv(Lean) != "1" {
		return c
	}
	return any(leanddb.New(dynamodb.New(sdk.Options(), func(o *dynamodb.Options) {
		if o.Credentials == nil {
			o.Credentials = credentials.NewStaticCredentialsProvider("test", "test", "")
		}
	}))).(C)
}
