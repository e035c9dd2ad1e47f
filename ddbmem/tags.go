package ddbmem

import (
	"maps"
	"strings"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// readTagRequest reads a request about tags and returns the ARN it names. Tags and
// keys are nil for a request without them.
func (c *call) readTagRequest(tags map[string]string, keys *[]string) (string, error) {
	arn := ""
	c.in.Object(func(member string) {
		switch {
		case member == "ResourceArn":
			arn = c.in.String()
		case member == "Tags" && tags != nil:
			readTags(c.in, tags)
		case member == "TagKeys" && keys != nil:
			c.in.Array(func() { *keys = append(*keys, c.in.String()) })
		default:
			c.in.Fail(unsupported(member + " in " + c.operation))
		}
	})
	return arn, c.in.Err()
}

func (db *DB) byARN(arn string) (*table, error) {
	_, name, ok := strings.Cut(arn, ":table/")
	if t := db.tables[name]; ok && t != nil {
		return t, nil
	}
	return nil, fail("ResourceNotFoundException", "Requested resource not found: ResourcArn: %s not found", arn)
}

func (c *call) tagResource() error {
	tags := map[string]string{}
	return c.changeTags(tags, nil, func(t *table) { maps.Copy(t.tags, tags) })
}

func (c *call) untagResource() error {
	var keys []string
	return c.changeTags(nil, &keys, func(t *table) {
		for _, k := range keys {
			delete(t.tags, k)
		}
	})
}

func (c *call) changeTags(tags map[string]string, keys *[]string, change func(*table)) error {
	arn, err := c.readTagRequest(tags, keys)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.byARN(arn)
	if err != nil {
		return err
	}
	change(t)
	return nil
}

func (c *call) listTagsOfResource() error {
	arn, err := c.readTagRequest(nil, nil)
	if err != nil {
		return err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	t, err := c.byARN(arn)
	if err != nil {
		return err
	}
	c.out = append(wire.Field(c.out, "Tags"), '[')
	for _, k := range sortedKeys(t.tags) {
		c.out = wire.AppendString(wire.Field(append(wire.Comma(c.out), '{'), "Key"), k)
		c.out = append(wire.AppendString(wire.Field(c.out, "Value"), t.tags[k]), '}')
	}
	c.out = append(c.out, ']')
	return nil
}
