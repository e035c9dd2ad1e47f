package infra

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestKeyIsNoAlias: the policies name the key that the tables are encrypted under, and IAM
// knows a key by its own ARN alone.
func TestKeyIsNoAlias(t *testing.T) {
	parameters := resolveStack(t, modelOf(t, Options{}).CloudFormation(), places[0], nil)["Parameters"].(map[string]any)
	pattern := regexp.MustCompile(parameters[paramKey].(map[string]any)["AllowedPattern"].(string))
	for text, want := range map[string]bool{
		"": true, key: true, places[3].Key: true,
		"arn:aws:kms:eu-central-1:123456789012:alias/limits": false, "alias/limits": false, "1234abcd-12ab-34cd-56ef-1234567890ab": false,
	} {
		assert.Equal(t, want, pattern.MatchString(text), text)
	}
}

// TestKeyIsUsedThroughDynamoDBAlone: the key that the tables are encrypted under serves each
// role through DynamoDB, never by itself, and no role can change or give away the key.
func TestKeyIsUsedThroughDynamoDBAlone(t *testing.T) {
	m := modelOf(t, Options{Budget: budgets})
	for _, at := range places {
		if at.Key == "" {
			continue
		}
		call := func(action, key, via string) iamCall {
			return iamCall{"kms:" + action, key, map[string][]string{viaService: {via}}}
		}
		through := "dynamodb." + at.Region + ".amazonaws.com"
		for _, role := range m.Roles {
			policy := readPolicy(t, m.Policy(role, at).JSON())
			assert.True(t, policy.allows(call("Decrypt", at.Key, through)), role.ID)
			assert.False(t, policy.allows(call("Decrypt", at.Key+"2", through)), role.ID)
			for _, action := range []string{"CreateGrant", "DescribeKey"} {
				assert.Equal(t, role.ID == "Admin", policy.allows(call(action, at.Key, through)), "%s: %s, to make a table", role.ID, action)
			}
			for _, action := range []string{"Decrypt", "DescribeKey", "CreateGrant"} {
				assert.False(t, policy.allows(call(action, at.Key, "s3."+at.Region+".amazonaws.com")), "%s: %s", role.ID, action)
				assert.False(t, policy.allows(iamCall{"kms:" + action, at.Key, nil}), "%s: %s", role.ID, action)
			}
			for _, action := range []string{"ScheduleKeyDeletion", "DisableKey", "PutKeyPolicy", "RetireGrant", "UpdateAlias"} {
				assert.False(t, policy.allows(call(action, at.Key, through)), "%s: %s", role.ID, action)
			}
		}
	}
}
