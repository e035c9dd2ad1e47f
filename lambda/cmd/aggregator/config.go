package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit/aggregator/alert"
)

// The variables of the environment.
const (
	envTable     = "DYNALIMIT_TABLE"          // the table's name; required
	envRetention = "DYNALIMIT_RETENTION_DAYS" // how long snapshots are kept where the table says nothing, 0 for ever; 90 by default
	envWriters   = "DYNALIMIT_WRITERS"        // how many snapshots are written at once; 16 by default
	envTries     = "DYNALIMIT_TRIES"          // how often a record that cannot be read is tried; 3 by default
	envLevel     = "DYNALIMIT_LOG_LEVEL"      // debug, info, warn or error; info by default

	envWebhook   = "DYNALIMIT_ALERT_WEBHOOK"    // the address of a webhook that gets alerts; none by default
	envSecrets   = "DYNALIMIT_ALERT_SECRET"     //nolint:gosec // a name: of the secrets that sign its requests, separated by white space; none by default
	envSecretARN = "DYNALIMIT_ALERT_SECRET_ARN" //nolint:gosec // a name: the secret of Secrets Manager that has the address and the secrets instead, each in a line
	envFormat    = "DYNALIMIT_ALERT_FORMAT"     // json or slack; slack by default for a host of slack.com, else json
	envFunction  = "AWS_LAMBDA_FUNCTION_NAME"   // Lambda sets it

	envBucket = "DYNALIMIT_ARCHIVE_BUCKET"  // the bucket of expired items: with it, the function only archives
	envPrefix = "DYNALIMIT_ARCHIVE_PREFIX"  // begins the key of every object; none by default
	envKMSKey = "DYNALIMIT_ARCHIVE_KMS_KEY" // encrypts objects; as the bucket says by default
)

// config is the environment's configuration. A 0 means the default of the package that uses it.
type config struct {
	table     string
	retention time.Duration
	writers   int
	tries     int
	level     slog.Level
	archive   place
	webhook   webhook
}

// place is the location of an archive.
type place struct{ bucket, prefix, key string }

// mostDays bounds the retention: a century.
const mostDays = 36_500

// readConfig returns the configuration in environment variables, with 0 for a missing number; a retention of 0
// days becomes -1, for ever. Its error joins the faults of all variables.
func readConfig(getenv func(string) string) (config, error) {
	c := config{table: getenv(envTable)}
	var errs []error
	if c.table == "" {
		errs = append(errs, fmt.Errorf("%s is not set; give the name of the table whose stream calls the function", envTable))
	}
	days, err := intVariable(getenv, envRetention, 0, mostDays)
	switch c.retention = time.Duration(days) * 24 * time.Hour; {
	case err != nil:
		errs = append(errs, err)
	case getenv(envRetention) != "" && days == 0:
		c.retention = -1
	}
	c.writers, err = intVariable(getenv, envWriters, 1, 1000)
	errs = append(errs, err)
	c.tries, err = intVariable(getenv, envTries, 1, 100)
	errs = append(errs, err)
	c.webhook = webhook{getenv(envWebhook), getenv(envSecrets), getenv(envSecretARN), alert.Format(getenv(envFormat)), cmp.Or(getenv(envFunction), "aggregator")}
	if f := c.webhook.format; f != "" && f != alert.FormatJSON && f != alert.FormatSlack {
		errs = append(errs, fmt.Errorf("%s is %q; give %s or %s", envFormat, f, alert.FormatJSON, alert.FormatSlack))
	}
	if c.webhook.address != "" && c.webhook.arn != "" {
		errs = append(errs, fmt.Errorf("%s and %s are both set; leave one of them out", envWebhook, envSecretARN))
	}
	c.archive = place{getenv(envBucket), getenv(envPrefix), getenv(envKMSKey)}
	if c.archive.bucket == "" && c.archive != (place{}) {
		errs = append(errs, fmt.Errorf("%s or %s is set, and %s is not; give the name of the bucket, or neither", envPrefix, envKMSKey, envBucket))
	}
	if text := getenv(envLevel); text != "" {
		if err := c.level.UnmarshalText([]byte(text)); err != nil {
			errs = append(errs, fmt.Errorf("%s is %q; give debug, info, warn or error", envLevel, text))
		}
	}
	return c, errors.Join(errs...)
}

// intVariable returns the environment variable name as a whole number from least to most; 0 if it is not set.
// It fails for any other value.
func intVariable(getenv func(string) string, name string, least, most int) (int, error) {
	text := getenv(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s is %q; give a whole number from %d to %d", name, text, least, most)
	}
	return n, nil
}
