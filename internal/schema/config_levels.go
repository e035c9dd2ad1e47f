package schema

import (
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// liftedIn returns the names of the limits that an item takes away, in order. It fails for a malformed mark.
func liftedIn(item Item) (names []string, err error) {
	for attr := range item {
		name, field, ok := splitQuota(attr)
		if !ok || field != fieldLifted {
			continue
		}
		on, err := readMark(item, attr)
		if err != nil {
			return nil, err
		}
		if on {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// checkLifted returns an error if an item both has and lifts one of the named limits.
func checkLifted(item Item, names []string) error {
	for _, name := range names {
		if item[limitPrefix+name+"_"+fieldCapacity] != nil || item[kindPrefix+name+"_"+fieldAllowed] != nil {
			return fmt.Errorf("limit %s is both set and lifted", name)
		}
	}
	return nil
}

// putMarks sets the marks that are true in item, in place, and removes the others of the map marks.
func putMarks(item Item, marks map[string]bool) {
	for name, yes := range marks {
		delete(item, name)
		if yes {
			item[name] = &types.AttributeValueMemberBOOL{Value: true}
		}
	}
}
