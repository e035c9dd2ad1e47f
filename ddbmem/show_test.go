package ddbmem_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// showItem is an item as text, with names and sets in order.
func showItem(it item) string {
	parts := make([]string, 0, len(it))
	for _, name := range slices.Sorted(maps.Keys(it)) {
		parts = append(parts, name+"="+showValue(it[name]))
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func showItems(items []item) string {
	parts := make([]string, len(items))
	for i, it := range items {
		parts[i] = showItem(it)
	}
	return strings.Join(parts, " ")
}

func showValue(v av) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return fmt.Sprintf("%q", v.Value)
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberB:
		return fmt.Sprintf("0x%x", v.Value)
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprint(v.Value)
	case *types.AttributeValueMemberNULL:
		return "null"
	case *types.AttributeValueMemberSS:
		return fmt.Sprintf("ss%q", slices.Sorted(slices.Values(v.Value)))
	case *types.AttributeValueMemberNS:
		return fmt.Sprintf("ns%q", slices.Sorted(slices.Values(v.Value)))
	case *types.AttributeValueMemberBS:
		parts := make([]string, len(v.Value))
		for i, b := range v.Value {
			parts[i] = fmt.Sprintf("%x", b)
		}
		slices.Sort(parts)
		return fmt.Sprintf("bs%q", parts)
	case *types.AttributeValueMemberL:
		parts := make([]string, len(v.Value))
		for i, e := range v.Value {
			parts[i] = showValue(e)
		}
		return "[" + strings.Join(parts, " ") + "]"
	case *types.AttributeValueMemberM:
		return showItem(v.Value)
	}
	return fmt.Sprintf("%T", v)
}
