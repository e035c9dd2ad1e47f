package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/aggregator/alert"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// The variables with the address of the webhook and with its secrets: arguments are visible to other users of a machine.
const (
	webhookVariable = "DYNALIMIT_ALERT_WEBHOOK"
	secretVariable  = "DYNALIMIT_ALERT_SECRET" //nolint:gosec // a name
)

// alertFlags say where alerts are sent.
type alertFlags struct {
	AlertWebhook string `help:"File with the address of a webhook that gets the alerts of limits. Default: the address in DYNALIMIT_ALERT_WEBHOOK, or no webhook." placeholder:"FILE"`
	AlertSecret  string `help:"File with the secret that signs its requests, as Standard Webhooks say; a second line is a second secret. Default: DYNALIMIT_ALERT_SECRET, or no signature." placeholder:"FILE"`
	AlertPrivate bool   `help:"Let the webhook be in a private network. Without it a name that resolves to a private, loopback or link-local address is refused."`
	AlertFormat  string `help:"Body of its requests: json, or slack for the text alone." enum:"json,slack" default:"json"`
}

// secretText returns the content of a file or, if file is "", of a variable of the environment, without
// surrounding spaces. It is "" without both. An unreadable file is bad input.
func secretText(file, variable string) (string, error) {
	if file == "" {
		return strings.TrimSpace(os.Getenv(variable)), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", badInput("%s cannot be read: %w", term.Plain(file), withoutPath(err))
	}
	return strings.TrimSpace(string(data)), nil
}

// newDeliverer returns the deliverer of alerts to the webhook, not started, or nil without a webhook. The
// deliverer reports each delivery and failure to note. An unreadable file and an invalid webhook are errors.
func (f alertFlags) newDeliverer(client *dynamodb.Client, table string, note func(string)) (*alert.Deliverer, error) {
	address, err := secretText(f.AlertWebhook, webhookVariable)
	if err != nil || address == "" {
		return nil, err
	}
	secrets, err := secretText(f.AlertSecret, secretVariable)
	if err != nil {
		return nil, err
	}
	hook, err := alert.NewWebhook(address, &alert.WebhookOptions{Format: alert.Format(f.AlertFormat), Secrets: strings.Fields(secrets), AllowPrivate: f.AlertPrivate})
	if err != nil {
		return nil, badInput("the webhook of alerts: %w", err)
	}
	return alert.New(client, table, hook, &alert.Options{
		Holder: hostname(), Failed: func(err error) { note("alerts: " + err.Error()) },
		Sent: func(m alert.Message, err error) {
			if err != nil {
				note(fmt.Sprintf("alerts: %d were not delivered: %v", len(m.Alerts), err))
				return
			}
			note(fmt.Sprintf("alerts: %d were delivered to %s", len(m.Alerts), hook))
		},
	})
}
