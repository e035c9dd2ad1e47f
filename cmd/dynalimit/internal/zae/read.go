// Package zae reads a table of zae-limiter, the Python library, without writing to it. It
// converts limits and entities to a manifest, and names the parts that a manifest cannot
// express.
package zae

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/layout"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

const (
	// defaultNamespace is the namespace of zae-limiter's default.
	defaultNamespace = "default"
	// registry is the partition of namespaces, and of the version record of tables that have them.
	registry = "_/SYSTEM#"
	// namespaces is the prefix of the sort keys of registered namespaces.
	namespaces = "#NAMESPACE#"
	// newest is the newest known layout, of zae-limiter 0.17.
	newest = "0.10.0"
)

// Source is the content of a table of zae-limiter.
type Source struct {
	// Table is the table's name.
	Table string
	// Layout is the version of the layout; "" without a version record.
	Layout string
	// Namespace is the read namespace; "" for a layout without namespaces.
	Namespace string
	// Others are the other active namespaces, sorted.
	Others []string

	keys  schema.Keys
	items []schema.Item
	// nested has the items of 0.5 and before, whose attributes are in a map.
	nested map[schema.Key]bool
}

// Read scans a table of zae-limiter once, consistently, and returns the undecoded items of limits and entities
// of one namespace; "" means "default". It calls told after each page with the items read and kept so far. It
// fails for a table of another program, a layout newer than 0.10.0, or a missing namespace.
func Read(ctx context.Context, client table.Client, name, namespace string, told func(read, kept int64)) (*Source, error) {
	in := &dynamodb.ScanInput{
		TableName: &name, ConsistentRead: aws.Bool(true),
		FilterExpression:         aws.String("#sk = :meta OR #sk = :version OR begins_with(#sk, :config) OR begins_with(#sk, :limit) OR begins_with(#sk, :namespace)"),
		ExpressionAttributeNames: map[string]string{"#sk": schema.SK},
		ExpressionAttributeValues: schema.Item{
			":meta": schema.String("#META"), ":version": schema.String(schema.VersionKey().SK), ":config": schema.String("#CONFIG"),
			":limit": schema.String(schema.LegacyLimits), ":namespace": schema.String(namespaces),
		},
	}
	t := &table.Table{Client: client, Name: name}
	nested := map[schema.Key]bool{}
	var items []schema.Item
	for read := int64(0); ; {
		var page *dynamodb.ScanOutput
		err := table.RetryThrottled(ctx, func() (err error) {
			page, err = client.Scan(ctx, in)
			return t.Failure("read the table of zae-limiter", err)
		})
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			flat, wasNested := flattenItem(item)
			items, nested[schema.KeyOf(item)] = append(items, flat), wasNested
		}
		read += int64(page.ScannedCount)
		told(read, int64(len(items)))
		if in.ExclusiveStartKey = page.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			s, err := sourceOf(name, namespace, items)
			if err == nil {
				s.nested = nested
			}
			return s, err
		}
	}
}

// flattenItem returns a copy of an item with the attributes of its map "data", which versions before 0.6 wrote,
// at the top. wasNested is false for an item without it, which it returns as it is.
func flattenItem(item schema.Item) (flat schema.Item, wasNested bool) {
	nested, ok := item["data"].(*types.AttributeValueMemberM)
	if !ok {
		return item, false
	}
	out := maps.Clone(nested.Value)
	maps.Copy(out, item)
	delete(out, "data")
	return out, true
}

// sourceOf returns the Source with the items of one namespace of a scanned table. It fails if the table belongs
// to dynalimit or to neither, has a newer layout, or lacks the namespace.
func sourceOf(name, namespace string, items []schema.Item) (*Source, error) {
	s := &Source{Table: name}
	versions, ids := recordsOf(items)
	version, later := versions[schema.LaterVersionKey()]
	if !later {
		version = versions[schema.VersionKey()]
	}
	record, _ := schema.DecodeVersion(version)
	s.Layout = record.Schema
	switch {
	case !later && (record.CompositeOnly || record.UpdatedBy == layout.Writer):
		return nil, fmt.Errorf("table %q is one of dynalimit: read it with 'dynalimit manifest export --table %s'", name, name)
	case later && !isKnownLayout(s.Layout):
		return nil, fmt.Errorf("table %q has the layout %s of zae-limiter, and the newest one that is known here is %s: use a newer version of dynalimit", name, s.Layout, newest)
	case !later && len(ids) == 0 && namespace != "":
		return nil, fmt.Errorf("table %q has a layout without namespaces: leave --from-namespace out", name)
	case later || len(ids) > 0:
		s.Namespace = namespace
		if namespace == "" {
			s.Namespace = defaultNamespace
		}
		id, there := ids[s.Namespace]
		if !there || id == "" {
			return nil, fmt.Errorf("table %q has no namespace %q: name one with --from-namespace; it has %s", name, s.Namespace, listNames(ids))
		}
		s.keys = schema.NewKeys(id)
		delete(ids, s.Namespace)
		s.Others = slices.Sorted(maps.Keys(ids))
	}
	s.keepItems(items)
	if len(s.items) == 0 && version == nil {
		return nil, fmt.Errorf("table %q is not one of zae-limiter: it has no version record, no limits and no entities", name)
	}
	return s, nil
}

// recordsOf returns the version records among items by key, and the ids of active namespaces by name.
func recordsOf(items []schema.Item) (versions map[schema.Key]schema.Item, ids map[string]string) {
	versions, ids = map[schema.Key]schema.Item{}, map[string]string{}
	for _, item := range items {
		key := schema.KeyOf(item)
		registered, is := strings.CutPrefix(key.SK, namespaces)
		switch {
		case key.PK == registry && is && schema.Text(item, "status") == "active":
			ids[registered] = schema.Text(item, "namespace_id")
		case key.SK == schema.VersionKey().SK:
			versions[key] = item
		}
	}
	return versions, ids
}

// keepItems appends to s.items those items that belong to the namespace's entities, resources or system,
// without the version record.
func (s *Source) keepItems(items []schema.Item) {
	for _, item := range items {
		if key := schema.KeyOf(item); key.SK != schema.VersionKey().SK && s.ownsPartition(key.PK) {
			s.items = append(s.items, item)
		}
	}
}

// ownsPartition reports whether a partition belongs to the namespace and is one of an entity, a resource or the
// system.
func (s *Source) ownsPartition(pk string) bool {
	rest, inside := strings.CutPrefix(pk, s.keys.Prefix())
	return inside && slices.ContainsFunc([]string{"ENTITY#", "RESOURCE#", "SYSTEM#"}, func(kind string) bool { return strings.HasPrefix(rest, kind) })
}

// isKnownLayout reports whether this program can read the layout version of zae-limiter, of those with
// namespaces: 0.10 or older. It is false for a malformed version.
func isKnownLayout(version string) bool {
	var major, minor, patch int
	_, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	return err == nil && major == 0 && minor <= 10
}

// listNames lists the names of namespaces, sorted, or returns "none".
func listNames(ids map[string]string) string {
	if len(ids) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(ids)), ", ")
}

var errTwice = errors.New("one limit is stored twice, as a bucket and as a quota of a session")
