// Package secretsmanager reads the keys of a keeper from AWS Secrets Manager:
//
//	keys, err := credentials.WatchKeys(ctx, secretsmanager.FromConfig(cfg, "keeper/keys"),
//		&credentials.WatchOptions{Interval: time.Minute})
//
// The secret is a document in the form of credentials.ParseKeySet, as text or as bytes. Reading
// it requires secretsmanager:GetSecretValue on that secret only, and kms:Decrypt if the secret
// has its own KMS key. The package never writes.
//
// It is a separate module, so that only its users link the SDK of Secrets Manager. It imports
// nothing of the keeper: Keys returns a credentials.KeyLoader.
package secretsmanager

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// Client reads a secret. *secretsmanager.Client of the SDK implements it.
type Client interface {
	// GetSecretValue reads a version of a secret.
	GetSecretValue(
		context.Context, *secretsmanager.GetSecretValueInput, ...func(*secretsmanager.Options),
	) (*secretsmanager.GetSecretValueOutput, error)
}

// FromConfig returns the function of Keys with a client of the AWS configuration cfg; it sends no request. A
// secret given by its ARN is read in the ARN's region, otherwise in cfg's.
func FromConfig(cfg aws.Config, secret string) func(context.Context) ([]byte, error) {
	return Keys(secretsmanager.NewFromConfig(cfg, func(o *secretsmanager.Options) {
		if named, err := arn.Parse(secret); err == nil && named.Region != "" {
			o.Region = named.Region
		}
	}), secret)
}

// Keys returns a function that reads the current version of a secret, by its name or ARN, and returns its
// bytes, unparsed. Also a nil client or an empty name fails only there. Errors never contain the secret.
func Keys(client Client, secret string) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		switch v := reflect.ValueOf(client); {
		case client == nil || v.Kind() == reflect.Pointer && v.IsNil():
			return nil, errors.New("secretsmanager: invalid client: is nil; give a client of Secrets Manager")
		case secret == "":
			return nil, errors.New("secretsmanager: invalid secret: is empty; give its name or ARN")
		case ctx == nil:
			return nil, errors.New("secretsmanager: invalid ctx: is nil; pass context.Background()")
		}
		out, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &secret})
		switch {
		case err != nil:
			return nil, fmt.Errorf("secretsmanager: %s cannot be read: %w", secret, err)
		case out.SecretString != nil:
			return []byte(*out.SecretString), nil
		}
		return out.SecretBinary, nil
	}
}
