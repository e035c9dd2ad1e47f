package tables

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Settings are the settings of a table beside the library's definition.
type Settings struct {
	// Recovery is point-in-time recovery, Protection is deletion protection, and Stream is a
	// stream of new and old images. Each defaults to false, which leaves a table as it is.
	Recovery, Protection, Stream bool
	// Existing refuses to create a missing table. Defaults to false.
	Existing bool
	// KMSKey is the encryption key: an ARN, an id or an alias. Defaults to one of Amazon's,
	// which leaves a table as it is.
	KMSKey string
	// Tags are added to the table. Defaults to none. Existing tags stay.
	Tags map[string]string
}

// The steps of making a table.
const (
	StepTable      = "table"
	StepTTL        = "ttl"
	StepLayout     = "layout"
	StepOlder      = "older-layout"
	StepStream     = "stream"
	StepProtection = "deletion-protection"
	StepRecovery   = "point-in-time-recovery"
	StepKey        = "kms-key"
	StepTags       = "tags"
)

// Step is one missing part of a table.
type Step struct {
	Step  string `json:"step"`
	About string `json:"about"`
	// Done is false in a dry run, and if the engine does not know the operation.
	Done bool `json:"done"`
	// Skipped is the reason that the step was skipped, or "".
	Skipped string `json:"skipped,omitempty"`
}

// Steps returns the missing parts of a table in state s as steps, in the order of their creation; none is done
// yet. empty says that the table has no items of an older layout, which s does not show.
func Steps(s State, p Plan, want Settings, empty bool) []Step {
	var steps []Step
	add := func(yes bool, step, about string, args ...any) {
		if yes {
			steps = append(steps, Step{Step: step, About: fmt.Sprintf(about, args...)})
		}
	}
	there := s.Exists()
	add(!there, StepTable, "the table, on demand%s", withIndexes(p))
	add(s.TTL == "", StepTTL, "items expire by the attribute %s", p.TTL)
	add(p.Layout != nil && s.Layout == "", StepLayout, "the record of its layout")
	add(p.Layout != nil && there && !s.CompositeOnly && empty, StepOlder, "the record says that nothing of an older layout is left: it is empty")
	add(want.Stream && s.Stream == "", StepStream, "a stream of new and old images")
	add(want.Protection && s.Protection != Yes, StepProtection, "deletion protection")
	add(want.Recovery && s.Recovery != Yes, StepRecovery, "point-in-time recovery, 35 days back")
	add(want.KMSKey != "" && !isSameKMSKey(s.KMSKey, want.KMSKey), StepKey, "encryption under %s", want.KMSKey)
	if missing := missingTags(s.Tags, want.Tags); len(missing) > 0 {
		add(true, StepTags, "tags %s", strings.Join(missing, ", "))
	}
	return steps
}

// withIndexes returns ", with the indexes" and the names of the plan's indexes, for the end of a sentence, or
// "" without any.
func withIndexes(p Plan) string {
	names := make([]string, len(p.Input.GlobalSecondaryIndexes))
	for i, x := range p.Input.GlobalSecondaryIndexes {
		names[i] = aws.ToString(x.IndexName)
	}
	if len(names) == 0 {
		return ""
	}
	return ", with the indexes " + strings.Join(names, ", ")
}

// isSameKMSKey reports whether the ARN of a table's KMS key is the key that a user named by ARN or id. It is
// false for an alias.
func isSameKMSKey(arn, named string) bool {
	return arn == named || arn != "" && strings.HasSuffix(arn, "key/"+strings.TrimPrefix(named, "key/"))
}

// missingTags returns the tags of want that have lacks or has with another value, as "key=value", sorted by
// key. It is nil if none is missing.
func missingTags(have, want map[string]string) []string {
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if value, ok := have[key]; !ok || value != want[key] {
			missing = append(missing, key+"="+want[key])
		}
	}
	return missing
}

// tagList returns tags for a request, sorted by key.
func tagList(tags map[string]string) []types.Tag {
	var list []types.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return list
}
