package infra

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/aggregator/archive"
)

// bucketHere is where the archive is here.
const bucketHere = "arn:aws:s3:::kept/limits/"

// archivePolicy is the policy of the function that archives, with a key of its own or not.
func archivePolicy(t *testing.T, archiveKey string) iamPolicy {
	t.Helper()
	at := here
	at.Bucket, at.Prefix, at.ArchiveKey = "kept", "limits/", archiveKey
	return readPolicy(t, policyOf(t, "Archive", Options{Archive: true}, at))
}

// puts records the calls of S3 that an archive makes, several at a time.
type puts struct {
	mu    sync.Mutex
	calls []iamCall
}

// Put implements archive.Writer, as package s3archive does.
func (p *puts) Put(_ context.Context, name string, _ []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, iamCall{"s3:PutObject", bucketHere + name, nil})
	return nil
}

// TestArchiveRolePutsWhatIsArchived: under its policy the function puts every file that the
// archive of a table in use has, and can do nothing else: neither read nor delete an object,
// put one elsewhere, nor change the table.
func TestArchiveRolePutsWhatIsArchived(t *testing.T) {
	p, made := archivePolicy(t, ""), &puts{}
	inWorld(t, func(w world) {
		records := w.use()
		w.count(w.db.Client(), records)
		a, err := archive.New(made, &archive.Options{Writers: 1})
		require.NoError(w, err)
		var gone []aggregator.Record
		w.records(func() { elapse(500 * 24 * time.Hour); w.db.ExpireNow() }, &gone)
		result, err := a.Process(w.Context(), gone)
		require.NoError(w, err)
		require.Positive(w, result.Counted)
	})
	require.NotEmpty(t, made.calls)
	for _, c := range made.calls {
		assert.True(t, p.allows(c), "%+v", c)
		for _, action := range []string{"s3:GetObject", "s3:DeleteObject", "s3:PutObjectAcl"} {
			assert.False(t, p.allows(iamCall{action, c.Resource, nil}), action)
		}
		for _, elsewhere := range []string{"arn:aws:s3:::kept/", "arn:aws:s3:::kept/limits-2/", "arn:aws:s3:::other/limits/"} {
			assert.False(t, p.allows(iamCall{c.Action, strings.Replace(c.Resource, bucketHere, elsewhere, 1), nil}), elsewhere)
		}
	}
	for _, action := range []string{"GetItem", "Query", "Scan", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "DeleteTable"} {
		assert.False(t, p.allows(iamCall{actionsPrefix + action, "arn:aws:dynamodb:us-east-1:123456789012:table/limits", map[string][]string{leadingKeys: {"ENTITY#a"}}}), action)
	}
	const archiveKey = "arn:aws:kms:us-east-1:123456789012:key/kept"
	for service, want := range map[string]bool{"s3.us-east-1.amazonaws.com": true, "dynamodb.us-east-1.amazonaws.com": false} {
		use := iamCall{"kms:GenerateDataKey", archiveKey, map[string][]string{viaService: {service}}}
		assert.Equal(t, want, archivePolicy(t, archiveKey).allows(use), service)
		assert.False(t, p.allows(use), "where no key is named")
	}
}

// records has what is done recorded, as the stream would tell it.
func (w world) records(do func(), to *[]aggregator.Record) {
	w.db.OnWrite(recorder(to))
	defer w.db.OnWrite(nil)
	do()
}
