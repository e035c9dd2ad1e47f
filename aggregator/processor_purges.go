package aggregator

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// purge is the state of one namespace: whether it is purged, or in a purge, or the error of
// reading that.
type purge struct {
	begun bool
	err   error
}

// readPurges reads, for each namespace of the work, whether its purge has begun; an entry has the error if that
// read failed. The layout without a namespace has no entry. Process must not write into a purged namespace,
// because the purge would not remove those items.
func (p *Processor) readPurges(ctx context.Context, work []bucketWork) map[string]purge {
	looked := map[string]purge{}
	for _, w := range work {
		key, some := w.keys.Namespace()
		if _, known := looked[w.keys.Name()]; known || !some {
			continue
		}
		out, err := boundRequest(ctx, p.client.GetItem, &dynamodb.GetItemInput{TableName: &p.table, Key: key.Attributes(), ConsistentRead: aws.Bool(true)})
		if err != nil {
			looked[w.keys.Name()] = purge{err: err}
			continue
		}
		n, _ := schema.DecodeNamespace(out.Item)
		looked[w.keys.Name()] = purge{begun: n.State == fault.NamespacePurging || n.State == fault.NamespacePurged}
	}
	return looked
}
