package schema

import (
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Statement is a conditional update. Statements may share Names, so they must not be changed.
type Statement struct {
	Update, Condition string
	Names             map[string]string
	Values            map[string]types.AttributeValue
}

// OpRule is the condition of a write on its op slot, so that it lands once.
type OpRule uint8

const (
	// OpAny requires nothing. It is for the first try of a take, and for a give-back after another client's write to
	// the slot. Such a give-back is not sent again after a try without an answer.
	OpAny OpRule = iota
	// OpLast requires the slot to hold the client's own last write. It is for every try of a give-back
	// that may be resent.
	OpLast
	// OpNotMine requires the slot not to hold this operation. It is for the resend of a take.
	OpNotMine
)

// Op identifies one try of one write.
type Op struct {
	Slot int
	Rule OpRule
	// ID is the new content of the slot: the operation and, in its last byte, the try.
	ID []byte
	// Required is compared with the slot by the rule. Of OpLast it is the client's last write, of OpNotMine the ID
	// without its try.
	Required []byte
}

// maxStatementTexts bounds the texts cached by a registry. A service uses a few dozen; one of 20 limits takes 9
// KB.
const maxStatementTexts = 2048

// statementText is the text of a write, built once for each shape. Its names are shared.
type statementText struct {
	update, condition string
	names             map[string]string
	places            []string // value placeholders in the order of the operands
}

// textKey identifies the text of a write.
type textKey struct {
	set   *LimitSet
	shape string
}

// statementTexts caches the texts of spends and give-backs. When there are too many it drops all of them. Texts
// in use are built again.
type statementTexts struct {
	mu    sync.RWMutex
	known map[textKey]*statementText
}

// newStatementTexts returns an empty cache of texts.
func newStatementTexts() *statementTexts {
	return &statementTexts{known: map[textKey]*statementText{}}
}

// textOf returns the text of a write from the cache, or builds and adds it. The shape identifies it, with the
// set. If the cache is full, all texts are dropped.
func (t *statementTexts) textOf(set *LimitSet, shape []byte, of interface{ text() *statementText }) *statementText {
	t.mu.RLock()
	text := t.known[textKey{set, string(shape)}]
	t.mu.RUnlock()
	if text != nil {
		return text
	}
	text = of.text()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= maxStatementTexts {
		clear(t.known)
	}
	t.known[textKey{set, string(shape)}] = text
	return text
}

// operand is a value of a statement: bytes or, without bytes, a number.
type operand struct {
	bytes  []byte
	number int64
}

// withValues returns the statement of the text with the operands as values, in the order of the placeholders.
// It makes few allocations: the digits of all numbers share one string. It changes the operands.
func (t *statementText) withValues(operands []operand) Statement {
	var room [384]byte
	digits, numbers := room[:0], 0
	for i := range operands {
		if o := &operands[i]; o.bytes == nil {
			digits = strconv.AppendInt(digits, o.number, 10)
			o.number = int64(len(digits)) // their end
			numbers++
		}
	}
	all, from := string(digits), int64(0)
	values := make(map[string]types.AttributeValue, len(t.places))
	n, b := make([]types.AttributeValueMemberN, 0, numbers), make([]types.AttributeValueMemberB, 0, len(operands)-numbers)
	for i, place := range t.places {
		if o := &operands[i]; o.bytes == nil {
			n = append(n, types.AttributeValueMemberN{Value: all[from:o.number]})
			from, values[place] = o.number, &n[len(n)-1]
		} else {
			b = append(b, types.AttributeValueMemberB{Value: o.bytes})
			values[place] = &b[len(b)-1]
		}
	}
	return Statement{Update: t.update, Condition: t.condition, Names: t.names, Values: values}
}
