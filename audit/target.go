package audit

// System is the Target of changes of the limits of everyone.
const System = "$SYSTEM"

// Settings is the Target of changes of the settings that all keepers of a table share.
const Settings = "$SETTINGS"

// Resource returns the Target of changes of a resource's limits: "$RESOURCE:gpt-4".
func Resource(resource string) string { return "$RESOURCE:" + resource }

// Plan returns the Target of changes of a plan's limits: "$PLAN:pro".
func Plan(plan string) string { return "$PLAN:" + plan }

// Namespace returns the Target of changes of a whole namespace: "$NAMESPACE:eu". Its events are outside every
// namespace, so list them on a repository without one.
func Namespace(name string) string { return "$NAMESPACE:" + name }

// Price returns the Target of changes of a model's prices in a budget: "$PRICE:" and the model, such as
// "$PRICE:gpt-5".
func Price(model string) string { return "$PRICE:" + model }

// Key returns the Target of changes of a provisioning key of a budget: "$KEY:ci".
func Key(name string) string { return "$KEY:" + name }
