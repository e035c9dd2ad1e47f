package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Identity returns the author of changes for audit events: Principal if set, else USER@HOST with an engine,
// else the ARN of the AWS identity. It fails if AWS or the system does not name one.
func (o Options) Identity(ctx context.Context, cfg aws.Config) (string, error) {
	switch {
	case o.Principal != "":
		return o.Principal, nil
	case o.UsesEngine():
		return localUser()
	}
	who, err := o.CallerOf(ctx, cfg)
	if NoCredentials(err) { // without credentials no request is possible, whatever the principal
		return "", fmt.Errorf("AWS does not say who you are: %w", err)
	}
	if err != nil {
		return "", fmt.Errorf("AWS does not say who you are: %w; say it with --as NAME", err)
	}
	return who, nil
}

// CallerOf asks STS for the AWS identity of the credentials of cfg and returns its ARN, or the error of the
// request as it is.
func (o Options) CallerOf(ctx context.Context, cfg aws.Config) (string, error) {
	client := sts.NewFromConfig(cfg, func(s *sts.Options) {
		s.APIOptions = append(s.APIOptions, requestMiddleware(cmp.Or(o.Timeout, requestTimeout)))
	})
	out, err := client.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.Arn), nil
}

// UsesEngine reports whether the flags or the environment name an endpoint for DynamoDB. Then an engine, such
// as dynalimit local, takes the place of AWS.
func (o Options) UsesEngine() bool {
	return o.endpointURL() != "" || os.Getenv("AWS_ENDPOINT_URL_DYNAMODB") != "" || os.Getenv("AWS_ENDPOINT_URL") != ""
}

// localUser returns USER@HOST of this process, or USER if the host has no name. It fails if the system names no
// user.
func localUser() (string, error) {
	who, err := user.Current()
	if err != nil {
		return "", errors.New("the system does not say who you are: say it with --as NAME")
	}
	host, err := os.Hostname()
	if err != nil {
		return who.Username, nil //nolint:nilerr // the user is enough
	}
	return who.Username + "@" + host, nil
}
