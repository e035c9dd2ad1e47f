package rules

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// OpIDLength is the length of a write's id: of its operation, and of its try.
const OpIDLength = 9

// OneID is a change of stores: of one that sends every try of an operation with one
// id.
func OneID(s lane.Store) lane.Store { return &oneID{Store: s, tries: map[uint64]byte{}} }

type oneID struct {
	lane.Store
	mu    sync.Mutex
	tries map[uint64]byte
}

func (s *oneID) Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) lane.Answer {
	own := st.Values[":0"].(*types.AttributeValueMemberB).Value
	s.mu.Lock()
	s.tries[binary.BigEndian.Uint64(own)] = own[8]
	s.mu.Unlock()
	for name, v := range st.Values {
		if b, ok := v.(*types.AttributeValueMemberB); ok && len(b.Value) == OpIDLength {
			st.Values[name] = schema.Bytes(append(slices.Clone(b.Value[:8]), 0))
		}
	}
	a := s.Store.Update(ctx, key, st, hint, slot)
	if a.Image != nil && len(a.Image.Op) == OpIDLength {
		s.mu.Lock()
		defer s.mu.Unlock()
		image := *a.Image
		image.Op = append(slices.Clone(image.Op[:8]), s.tries[binary.BigEndian.Uint64(image.Op)])
		a.Image = &image
	}
	return a
}

// BlindResend is a change of stores: of one that sends a write whose answer was lost
// once more, whatever became of it.
func BlindResend(s lane.Store) lane.Store { return blindResend{s} }

type blindResend struct{ lane.Store }

func (s blindResend) Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) lane.Answer {
	a := s.Store.Update(ctx, key, st, hint, slot)
	if a.Verdict == ddb.Unconfirmed {
		st = rewritten(st, func(c Clause) string {
			if strings.HasPrefix(c.Attribute, "op") {
				return ""
			}
			return c.Text
		})
		a = s.Store.Update(ctx, key, st, hint, slot)
	}
	return a
}
