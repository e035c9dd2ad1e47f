// Package alert delivers the alerts of quotas (dynalimit.Limit.AlertAt). An aggregator.Processor decides each alert
// once, and stores it. A Deliverer sends the stored ones to a Sink, such as a Webhook, in messages of many, at least
// once.
//
// queue.go decides the time and the alerts of each message, from values and times; deliver.go reads and marks the
// stored alerts; webhook.go makes the requests.
package alert
