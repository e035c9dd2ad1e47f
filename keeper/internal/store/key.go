package store

import (
	"crypto/rand"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is a DynamoDB item: attribute values by name.
type Item = map[string]types.AttributeValue

// Key is a primary key. Every table has PK and SK.
type Key struct{ PK, SK string }

// IfAbsent is the condition that the item does not exist yet; #pk stands for PK.
const IfAbsent = "attribute_not_exists(#pk)"

// NewID returns a random UUID of version 4 as text. It serves as a request token, as an id, and as the mark by
// which a writer recognises its own item.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
