package rules

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// GiveBackLapsed returns a copy of a bucket's write that also adds lapsed tokens to the bucket. The write
// itself only takes them off the counter; a write that adds nothing is returned as it is.
func GiveBackLapsed(st schema.Statement) schema.Statement {
	before, added, adds := strings.Cut(st.Update, "ADD ")
	if !adds {
		return st
	}
	out := schema.Statement{Condition: st.Condition, Names: maps.Clone(st.Names), Values: maps.Clone(st.Values)}
	attributes := slices.Collect(maps.Values(st.Names))
	for pair := range strings.SplitSeq(added, ", ") {
		place, value, _ := strings.Cut(pair, " ")
		counter := st.Names[place]
		n, number := st.Values[value].(*types.AttributeValueMemberN)
		tokens := strings.TrimSuffix(counter, "_tc") + "_tk"
		if number && strings.HasSuffix(counter, "_tc") && strings.HasPrefix(n.Value, "-") && !slices.Contains(attributes, tokens) {
			out.Names[place+"9"], out.Values[value+"9"] = tokens, &types.AttributeValueMemberN{Value: n.Value[1:]}
			added += ", " + place + "9 " + value + "9"
		}
	}
	out.Update = before + "ADD " + added
	return out
}
