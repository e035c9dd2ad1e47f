package schema

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// manyLimits is the image of a bucket with n limits.
func manyLimits(n int) *Image {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("l%04d", i)
	}
	return &Image{Set: NewLimitSets().Of(names), Fingerprint: []byte("12345678"), Limits: make([]Stored, n)}
}

// spendOf spends from the limits whose bit is set, from full ones where full's is.
func spendOf(m *Image, limits, full int) *Spend {
	s := &Spend{Seen: m, Op: Op{ID: make([]byte, 9)}}
	for i := range m.Set.Names {
		if limits&(1<<i) != 0 {
			s.Limits = append(s.Limits, Change{Place: i, Update: bucket.Update{HasLow: true, Full: full&(1<<i) != 0}})
		}
	}
	return s
}

// However many shapes are asked for, the texts remembered are bounded, and each
// is right when it is built again.
func TestSpendTextsAreBounded(t *testing.T) {
	m := manyLimits(14)
	first := spendOf(m, 1, 0).Statement()
	for i := 1; i < 3*maxStatementTexts; i++ {
		spendOf(m, i, 0).Statement()
		require.LessOrEqual(t, len(m.Set.texts.known), maxStatementTexts)
	}
	assert.Equal(t, first, spendOf(m, 1, 0).Statement())
}

// An item of another writer may hold more limits than a configuration may.
func TestSpendOfAnyNumberOfLimits(t *testing.T) {
	for _, n := range []int{20, 33, 40, 65, 1000} {
		m := manyLimits(n)
		s := Spend{Seen: m, Op: Op{ID: make([]byte, 9)}, Limits: []Change{{Place: 1}, {Place: n - 1, Update: bucket.Update{HasLow: true}}}}
		st := s.Statement()
		assert.Contains(t, st.Names, "#0")
		names := map[string]bool{}
		for _, attr := range st.Names {
			names[attr] = true
		}
		assert.True(t, names[fmt.Sprintf("b_l%04d_tk", n-1)], "of %d limits, the last", n)
		s.Limits[1].Place = n - 2
		if n > 20 {
			assert.NotEqual(t, st.Names, s.Statement().Names, "not taken for another")
		}
	}
	all := manyLimits(1000)
	s := Spend{Seen: all, Op: Op{ID: make([]byte, 9)}}
	for i := range all.Set.Names {
		s.Limits = append(s.Limits, Change{Place: i, Update: bucket.Update{Add: -1 << 62, Low: -1 << 62, High: 1 << 62, HasLow: true}, Consumed: 1 << 62})
	}
	assert.Equal(t, Number(1<<62), s.Statement().Values[":4000"], "the digits of all the numbers, in their places")
}

// Whatever a spend asks for, its text names what it binds and no more; texts of
// other shapes, remembered beside, are not taken for it.
func TestSpendTextsOfEveryShape(t *testing.T) {
	m := manyLimits(2)
	other := *m
	other.Incarnation = []byte("incarnation")
	placeholder := regexp.MustCompile(`:\w+`)
	texts := map[string]bool{}
	for range 2 { // built, then remembered
		for _, seen := range []*Image{m, &other} {
			for shape := range 8 {
				s := spendOf(seen, 3, 1)
				s.Backs, s.LaterRefill = shape&1 != 0, shape&2 != 0
				if shape&4 != 0 {
					s.TTL = 1
				}
				st := s.Statement()
				used := map[string]bool{}
				for _, p := range placeholder.FindAllString(st.Update+st.Condition, -1) {
					used[p] = true
					assert.Contains(t, st.Values, p)
				}
				assert.Len(t, st.Values, len(used))
				for _, v := range st.Values {
					assert.NotNil(t, v)
				}
				named := func(attribute string) bool { return slices.Contains(slices.Collect(maps.Values(st.Names)), attribute) }
				assert.Equal(t, s.Backs, named(attrIncarnation))
				assert.Equal(t, s.TTL > 0, named(TTL))
				_, bound := st.Values[placeholderOf(st, Bytes(other.Incarnation))]
				assert.Equal(t, s.Backs && seen == &other, bound)
				texts[st.Condition] = true
			}
		}
	}
	assert.Len(t, texts, 12, "the incarnation matters to what gives back alone")
}

// placeholderOf is what a value is bound to, "" for nothing.
func placeholderOf(st Statement, value types.AttributeValue) string {
	for p, v := range st.Values {
		if reflect.DeepEqual(v, value) {
			return p
		}
	}
	return ""
}

// Sets are made once for the same names, while there is room for them.
func TestLimitSetsAreRemembered(t *testing.T) {
	sets := NewLimitSets()
	first := sets.Of([]string{"rpm", "tpm"})
	assert.Same(t, first, sets.Of([]string{"rpm", "tpm"}))
	for i := range maxLimitSets {
		sets.Of([]string{fmt.Sprintf("l%04d", i)})
	}
	assert.Len(t, sets.sets, maxLimitSets)
	assert.Same(t, first, sets.Of([]string{"rpm", "tpm"}))
	late := []string{"late"}
	assert.NotSame(t, sets.Of(late), sets.Of(late), "not remembered, and right all the same")
}

// A give-back with a cached text is the one that is built without the cache, whatever its shape, and beside
// spends of the same limits.
func TestGiveBackTextsOfEveryShape(t *testing.T) {
	m := manyLimits(2)
	spendOf(m, 3, 0).Statement()
	windows := []bucket.WindowID{0, bucket.InLife(0, 495_000), bucket.InLife(3, 0), bucket.InLife(3, 495_000)}
	for range 2 { // built, then cached
		for _, op := range []Op{{ID: make([]byte, 9)}, {ID: make([]byte, 9), Rule: OpLast, Required: []byte("last")}, {ID: []byte("123456789"), Slot: 1, Rule: OpNotMine, Required: []byte("12345678")}} {
			for _, incarnation := range [][]byte{nil, []byte("incarnation")} {
				for shape := range 32 {
					for i, window := range windows {
						c := Change{
							Name: m.Set.Names[i%2], Place: i % 2, Quota: shape&1 != 0, SameLife: shape&2 != 0,
							Update: bucket.Update{HasLow: shape&4 != 0, Low: 7}, Consumed: -11, Window: window,
						}
						if shape&8 != 0 {
							c.Add = 13
						}
						if shape&16 != 0 {
							c.Passed = -17
						}
						g := &GiveBack{Incarnation: incarnation, Limits: []Change{c}, Op: op}
						want := g.Statement()
						g.Set = m.Set
						require.Equal(t, want, g.Statement(), "%+v", g)
					}
				}
			}
		}
	}
}

// A spend replaces the notes that it has, each in its attribute, whatever was written before.
func TestSpendReplacesNotes(t *testing.T) {
	m := manyLimits(1)
	interactive, batch := NextNote{Note: []byte("i")}, NextNote{Batch: true, Note: []byte("b")}
	for range 2 {
		for _, notes := range [][]NextNote{nil, {interactive}, {batch}, {interactive, batch}} {
			s := spendOf(m, 1, 0)
			s.Notes = notes
			st := s.Statement()
			left := map[string]string{}
			for placeholder, name := range st.Names {
				if value := regexp.MustCompile("(?:SET |, )" + placeholder + " = (:[0-9]+)").FindStringSubmatch(st.Update); value != nil && (name == attrWaiterNote || name == attrBatchNote) {
					left[name] = string(st.Values[value[1]].(*types.AttributeValueMemberB).Value)
				}
			}
			want := map[string]string{}
			for _, n := range notes {
				want[noteAttr(n.Batch)] = string(n.Note)
			}
			assert.Equal(t, want, left)
		}
	}
	assert.Contains(t, slices.Collect(maps.Values(LeaveNote(&Note{}, nil, true).Names)), attrBatchNote)
}
