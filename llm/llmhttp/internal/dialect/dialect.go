// Package dialect knows the model calls of each provider on the wire: the requests,
// the bounds in a request's body, the usage in an answer, and the shape of an
// error. A provider is one file: a table of paths, and its routes.
package dialect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/jsonscan"
)

// Dialect is one form of calls.
type Dialect struct {
	// Request lists the places of a request's body that bound its call.
	Request []Ask
	// Answer lists the places of an answer, or of an event of a streamed one, that report the usage.
	Answer []Tell
	// Asks are headers of a request with the meaning of values in its body.
	Asks map[string]Asked
	// Headers are headers of an answer that report the usage, for bodies that do not.
	Headers map[string]Said
	// Tools are the fees of tools, by type or key; see Fee.
	Tools map[string]Fee
	// Uses are the tools, under the names of prices, whose uses an answer shows.
	Uses []string
	// Tiers are the names of prices for a tier that has two.
	Tiers map[string]string
	// Inclusive means that the reported input includes cache reads and writes.
	Inclusive bool
	// Counts means that the provider counts requests that fail.
	Counts bool
	// Array means that a streamed answer may be one array of events.
	Array bool
	// Masks means that a request may ask for an answer without its usage, as Google's field masks do.
	Masks bool
	// Enveloped means that an event of a stream is the base64 of the JSON, in "bytes".
	Enveloped bool
	// Last is the name of the event that ends a stream; empty if the tables define the end.
	Last string
	// Shape is the form of errors.
	Shape *Shape

	asks, tells *jsonscan.Paths
}

// Ask is a path of a request, and the meaning of its value.
type Ask struct {
	Path string
	Asked
}

// Tell is a path of an answer, and the meaning of its value. Final means that it completes
// a stream.
type Tell struct {
	Path string
	Said
	Final bool
}

// Route is the information about a call in a request's method, path and headers.
type Route struct {
	*Dialect
	// Model is the model in the path, which wins over the body's. Empty: the body names it.
	Model string
	// Free means that the call costs nothing, as one that counts tokens.
	Free bool
	// Embeds means that the answer has no tokens of its own.
	Embeds bool
	// OneSearch means that all searches of the call are billed as one.
	OneSearch bool
	// Injects means that the usage of a streamed answer has to be requested.
	Injects bool
}

// AlwaysSearches reports whether a model of Chat Completions searches in each call, whether or not the
// request asks for it.
func (r Route) AlwaysSearches(model string) bool {
	return r.Injects && (strings.Contains(model, "-search-preview") || strings.Contains(model, "-search-api"))
}

// priceTier returns the name that prices use for a service tier: an alias of d.Tiers replaced, and else the
// name in lower case.
func (d *Dialect) priceTier(name string) string {
	name = strings.ToLower(name)
	return cmp.Or(d.Tiers[name], name)
}

// ChargedUses returns the number of uses to charge by tool: the reported ones, told, and the held uses of tools
// that answers do not report. Searches of a call that holds enterprise searches count as those. It is nil
// without any use.
func (d *Dialect) ChargedUses(told, held map[string]int64) map[string]int64 {
	all := map[string]int64{}
	for tool, n := range told {
		if _, enterprise := held[searchesOfEnterprises]; tool == searches && enterprise {
			tool = searchesOfEnterprises
		}
		all[tool] += n
	}
	for tool, n := range held {
		if !slices.Contains(d.Uses, tool) {
			all[tool] = max(all[tool], n)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}
