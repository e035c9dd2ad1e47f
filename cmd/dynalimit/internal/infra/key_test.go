package infra

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestKeyIsNoAlias: the policies name the key that the tables are encrypted under, and IAM
// knows a key by its own ARN alone.
func TestKeyIsNoAlias(t *testing.T) {
	found := regexp.MustCompile(`  KmsKeyArn:\n.*\n.*\n    AllowedPattern: "(.*)"`).FindStringSubmatch(cloudFormation)
	require.NotNil(t, found)
	require.Contains(t, terraform, `can(regex("`+found[1]+`", var.kms_key_arn))`)
	pattern := regexp.MustCompile(found[1])
	for text, want := range map[string]bool{
		"": true, key: true, places[2].Key: true,
		"arn:aws:kms:eu-central-1:123456789012:alias/limits": false, "alias/limits": false, "1234abcd-12ab-34cd-56ef-1234567890ab": false,
	} {
		assert.Equal(t, want, pattern.MatchString(text), text)
	}
}

// TestKeyIsUsedThroughDynamoDBAlone: the key that the tables are encrypted under serves each
// role through DynamoDB, never by itself, and no role can change or give away the key.
func TestKeyIsUsedThroughDynamoDBAlone(t *testing.T) {
	o := Options{Budget: budgets}
	for _, at := range places {
		if at.Key == "" {
			continue
		}
		call := func(action, key, via string) iamCall {
			return iamCall{"kms:" + action, key, map[string][]string{viaService: {via}}}
		}
		through := "dynamodb." + at.Region + ".amazonaws.com"
		for _, id := range []string{"Acquire", "Read", "Admin"} {
			policy := readPolicy(t, policyOf(t, id, o, at))
			assert.True(t, policy.allows(call("Decrypt", at.Key, through)), id)
			assert.False(t, policy.allows(call("Decrypt", at.Key+"2", through)), id)
			for _, action := range []string{"CreateGrant", "DescribeKey"} {
				assert.Equal(t, id == "Admin", policy.allows(call(action, at.Key, through)), "%s: %s, to make a table", id, action)
			}
			for _, action := range []string{"Decrypt", "DescribeKey", "CreateGrant"} {
				assert.False(t, policy.allows(call(action, at.Key, "s3."+at.Region+".amazonaws.com")), "%s: %s", id, action)
				assert.False(t, policy.allows(iamCall{"kms:" + action, at.Key, nil}), "%s: %s", id, action)
			}
			for _, action := range []string{"ScheduleKeyDeletion", "DisableKey", "PutKeyPolicy", "RetireGrant", "UpdateAlias"} {
				assert.False(t, policy.allows(call(action, at.Key, through)), "%s: %s", id, action)
			}
		}
	}
}
