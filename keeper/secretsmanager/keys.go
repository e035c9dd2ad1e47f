// Package secretsmanager reads the keys of a keeper from AWS Secrets Manager:
//
//	keys, err := credentials.WatchKeys(ctx, secretsmanager.FromConfig(cfg, "keeper/keys"),
//		&credentials.WatchOptions{Interval: time.Minute})
//
// The secret is a document as credentials.ParseKeySet reads it, as text or as bytes. It needs
// secretsmanager:GetSecretValue on that secret and nothing else; with a key of KMS of one's
// own also kms:Decrypt on it. It never writes.
//
// It is a module of its own, so that the SDK of Secrets Manager reaches nobody else's binary,
// and imports nothing of the keeper: what Keys returns is a credentials.KeyLoader.
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

// Client is what reads a secret. *secretsmanager.Client of the SDK implements it.
type Client interface {
	// GetSecretValue reads a version of a secret.
	GetSecretValue(
		context.Context, *secretsmanager.GetSecretValueInput, ...func(*secretsmanager.Options),
	) (*secretsmanager.GetSecretValueOutput, error)
}

// FromConfig is Keys with a client of an AWS configuration. A secret that is named by its
// ARN is read in the region of that, another in the configuration's.
func FromConfig(cfg aws.Config, secret string) func(context.Context) ([]byte, error) {
	return Keys(secretsmanager.NewFromConfig(cfg, func(o *secretsmanager.Options) {
		if named, err := arn.Parse(secret); err == nil && named.Region != "" {
			o.Region = named.Region
		}
	}), secret)
}

// Keys reads the current version of a secret, by its name or ARN. It makes no request
// before it is called. Its errors name the secret and what the service says, and nothing of
// what is in it.
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
