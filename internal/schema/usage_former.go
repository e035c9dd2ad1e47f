package schema

import "strings"

// Earlier versions counted failed logins among users' entities, as this resource.
const formerResource = "login"

// FormerlyOwn reports whether an entity's usage of a resource is failed logins, which earlier versions counted
// among users' entities.
func FormerlyOwn(entity, resource string) bool {
	return resource == formerResource && (strings.HasPrefix(entity, "login-address:") || strings.HasPrefix(entity, "login-client:"))
}

// FormerlyOwnLimit reports whether a counter of a resource counts failed logins. Sums of a resource have it
// from earlier versions.
func FormerlyOwnLimit(resource, counter string) bool {
	limit, _ := CounterOf(counter)
	return resource == formerResource && (limit == "failed_logins" || limit == "ended_logins")
}
