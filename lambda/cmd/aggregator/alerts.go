package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/dynalimit/dynalimit/aggregator/alert"
)

// webhook is the receiver of alerts in the environment. Alerts are decided and not delivered if address and arn are
// empty.
type webhook struct {
	address, secrets, arn string
	format                alert.Format
	// holder names the function among the deliverers.
	holder string
}

// isSet reports whether the environment names a receiver.
func (w webhook) isSet() bool { return w.address+w.arn != "" }

// formatFor returns the format of requests to an address: unless the environment says it, that of Slack for a host of
// Slack.
func (w webhook) formatFor(address string) alert.Format {
	if u, err := url.Parse(address); w.format == "" && err == nil && strings.HasSuffix(u.Hostname(), ".slack.com") {
		return alert.FormatSlack
	}
	return w.format
}

// alerts delivers alerts to a webhook, which it reads before each delivery: usage goes on while the webhook is wrong,
// and a changed secret counts at once. It is not safe for concurrent use.
type alerts struct {
	client *dynamodb.Client
	table  string
	to     webhook
	// readSecret returns the value of to.arn.
	readSecret func(context.Context) (string, error)
	logger     *slog.Logger

	text      string // of the deliverer
	deliverer *alert.Deliverer
}

// RunOnce tries each open alert once. It first reads the secret with the webhook, if the environment names one,
// and makes a deliverer anew for a changed webhook. It fails if the secret cannot be read, for a bad webhook,
// and as alert.Deliverer.RunOnce does.
func (a *alerts) RunOnce(ctx context.Context) error {
	text := a.to.address + "\n" + a.to.secrets
	if a.to.arn != "" {
		var err error
		if text, err = a.readSecret(ctx); err != nil {
			return fmt.Errorf("the secret %s cannot be read: %w", a.to.arn, err)
		}
	}
	if a.deliverer == nil || text != a.text {
		d, err := a.newDeliverer(text)
		if err != nil {
			return err
		}
		a.text, a.deliverer = text, d
	}
	return a.deliverer.RunOnce(ctx)
}

// newDeliverer returns a deliverer to the webhook in a text: the address, then the secrets that sign, separated
// by white space. It logs the results of messages. It fails for an empty text or an invalid webhook.
func (a *alerts) newDeliverer(text string) (*alert.Deliverer, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, errors.New("the webhook of alerts is empty; its first line is the address, further ones are secrets that sign")
	}
	hook, err := alert.NewWebhook(words[0], &alert.WebhookOptions{Format: a.to.formatFor(words[0]), Secrets: words[1:]})
	if err != nil {
		return nil, fmt.Errorf("the webhook of alerts: %w", err)
	}
	return alert.New(a.client, a.table, hook, &alert.Options{
		Holder: a.to.holder,
		Failed: func(err error) { a.logger.Warn("a request for alerts failed", "error", err) },
		Sent: func(m alert.Message, err error) {
			if err != nil {
				a.logger.Warn("alerts were not delivered, and are tried again", "alerts", len(m.Alerts), "error", err)
				return
			}
			a.logger.Info("alerts were delivered", "alerts", len(m.Alerts), "to", hook.String())
		},
	})
}

// secretOf returns a function that reads a secret of Secrets Manager by its ARN, in the region that the ARN names.
func secretOf(loaded aws.Config, name string) func(context.Context) (string, error) {
	client := secretsmanager.NewFromConfig(loaded, func(o *secretsmanager.Options) {
		if named, err := arn.Parse(name); err == nil && named.Region != "" {
			o.Region = named.Region
		}
	})
	return func(ctx context.Context) (string, error) {
		out, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &name})
		if err != nil {
			return "", err
		}
		return aws.ToString(out.SecretString), nil
	}
}
