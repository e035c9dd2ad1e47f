package dialect

import "strings"

// use is an item of a reply that is being read, which may be a use of a tool.
type use struct{ kind, name, action string }

// fee is the item's fee; the zero Fee if it is not a use of a provider's tool. Of the actions
// of OpenAI's search only searches cost: it may also open a page, or look for words in one.
func (u use) fee(table map[string]Fee) Fee {
	switch {
	case u.kind == "web_search_call" && u.action != "" && u.action != "search":
		return Fee{}
	case u.kind == "server_tool_use":
		return feeOf(table, u.name)
	case u.kind == "mcp_tool_use":
		return feeOf(table, "mcp_toolset")
	case strings.HasSuffix(u.kind, "_call"):
		return feeOf(table, strings.TrimSuffix(u.kind, "_call"))
	}
	return Fee{}
}

// uses are the uses of an answer, by the names of prices.
type uses struct {
	list map[string]int64 // of the list that is read, or of all that are in none
	most map[string]int64
}

func (all *uses) add(tool string) {
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

// withSearches returns them with the reported number of searches; without such a number it counts the items
// of the reply.
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
