package schema

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
)

func TestStanding(t *testing.T) {
	for _, test := range []struct {
		name   string
		record VersionRecord
		want   Standing
	}{
		{"ours", VersionRecord{Schema: "0.8.0"}, Current},
		{"of another patch", VersionRecord{Schema: "0.8.7", ClientMin: "0.8.1"}, Current},
		{"nothing said", VersionRecord{}, Missing},
		{"zae-limiter 0.7", VersionRecord{Schema: "0.7.0", UpdatedBy: "client:0.7.0"}, Older},
		{"zae-limiter 0.6, by its writer", VersionRecord{Schema: "1.0.0", UpdatedBy: "cli:0.6.1"}, Older},
		{"zae-limiter 0.6, between releases", VersionRecord{Schema: "1.0.0", UpdatedBy: "client:0.6.2.dev3+g0123abc"}, Older},
		{"zae-limiter 0.5, by its aggregator", VersionRecord{Schema: "1.0.0", Lambda: "0.5.0"}, Older},
		{"a later 1.0.0", VersionRecord{Schema: "1.0.0", UpdatedBy: "client:1.0.0", Lambda: "1.0.0"}, Incompatible},
		{"a 1.0.0 of nobody known", VersionRecord{Schema: "1.0.0"}, Incompatible},
		{"1.0.1 is later whoever wrote it", VersionRecord{Schema: "1.0.1", UpdatedBy: "cli:0.6.1"}, Incompatible},
		{"a newer major", VersionRecord{Schema: "v2.0.0-rc1"}, Incompatible},
		{"a newer minor", VersionRecord{Schema: "0.10.0"}, Newer},
		{"no number", VersionRecord{Schema: "latest"}, Incompatible},
		{"a newer client wanted", VersionRecord{Schema: "0.8.0", ClientMin: "0.8.2"}, ClientTooOld},
		{"an older client allowed", VersionRecord{Schema: "0.8.0", ClientMin: "0.0.0"}, Current},
		{"a wish that is no number", VersionRecord{Schema: "0.8.0", ClientMin: "any"}, Current},
	} {
		assert.Equal(t, test.want, test.record.Standing("0.8.0", "0.8.1"), test.name)
	}
}

func TestVersionRecordIsReadAsWritten(t *testing.T) {
	record := VersionRecord{Schema: "0.8.0", ClientMin: "0.0.0", CompositeOnly: true, UpdatedBy: "x", UpdatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	got, ok := DecodeVersion(record.Item())
	assert.True(t, ok)
	assert.Equal(t, record, got)
	assert.Equal(t, Key{"SYSTEM#", "#VERSION"}, VersionKey(), "one for the table")

	_, ok = DecodeVersion(nil)
	assert.False(t, ok)
}

// Writers before 0.6 nest the record, as they nest everything.
func TestNestedVersionRecord(t *testing.T) {
	item := VersionKey().Attributes()
	item["data"] = &types.AttributeValueMemberM{Value: Item{
		"schema_version": String("1.0.0"), "client_min_version": String("0.0.0"), "updated_at": String("2026-01-02T03:04:05Z"),
		"lambda_version": &types.AttributeValueMemberNULL{Value: true}, "updated_by": String("client:0.5.0"),
	}}
	got, ok := DecodeVersion(item)
	assert.True(t, ok)
	assert.Equal(t, VersionRecord{Schema: "1.0.0", ClientMin: "0.0.0", UpdatedBy: "client:0.5.0", UpdatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, got)
	assert.Equal(t, Older, got.Standing("0.8.0", "0.8.1"))
}
