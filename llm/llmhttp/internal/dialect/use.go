package dialect

import "strings"

// use is an item of a reply that is being read, which may be a use of a tool.
type use struct{ kind, name, action string }

// fee returns the item's fee from a table of known tools, the zero Fee if it is not a use of a provider's tool.
// Of OpenAI's search actions only "search" has one, not opening a page or finding words in it.
func (u use) fee(table map[string]Fee) Fee {
	switch {
	case u.kind == "web_search_call" && u.action != "" && u.action != "search":
		return Fee{}
	case u.kind == "server_tool_use":
		return toolFee(table, u.name)
	case u.kind == "mcp_tool_use":
		return toolFee(table, "mcp_toolset")
	case strings.HasSuffix(u.kind, "_call"):
		return toolFee(table, strings.TrimSuffix(u.kind, "_call"))
	}
	return Fee{}
}

// uses are the uses of an answer, by the names of prices.
type uses struct {
	list map[string]int64 // of the list that is read, or of all that are in none
	most map[string]int64
}

// addUse adds one use of a tool to the current list of the answer. It keeps the largest count of each tool in
// any list, because a stream repeats its list. It ignores "" and tools beyond the first 64.
func (all *uses) addUse(tool string) {
	if tool == "" || len(all.most) > maxTools {
		return
	}
	if all.list == nil {
		all.list = map[string]int64{}
	}
	if all.most == nil {
		all.most = map[string]int64{}
	}
	all.list[tool]++
	all.most[tool] = max(all.most[tool], all.list[tool])
}

// maxTools exceeds the tools of an answer.
const maxTools = 64

// withSearches returns the uses by tool, with the reported number of searches in place of the counted one. If
// that number is 0, it returns all.most itself.
func (all *uses) withSearches(search int64) map[string]int64 {
	if search == 0 {
		return all.most
	}
	told := map[string]int64{}
	for tool, n := range all.most {
		told[tool] = n
	}
	told[searches] = search
	return told
}
