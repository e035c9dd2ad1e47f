// Package dialect knows how the model calls of each provider look on the wire: which request is
// one, where its body bounds the call, where the answer says what was used, and what shape an
// error has. A provider is one file: a table of paths, and its routes.
package dialect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/jsonscan"
)

// Dialect is one form of calls.
type Dialect struct {
	// Request is where a request's body says what bounds its call.
	Request []Ask
	// Answer is where an answer, or an event of a streamed one, says what was used.
	Answer []Tell
	// Asks are headers of a request that say what its body may say.
	Asks map[string]Asked
	// Headers are headers of an answer that say what was used, for bodies that do not.
	Headers map[string]Said
	// Tools are the fees of tools, by type or key; see Fee.
	Tools map[string]Fee
	// Uses are the tools, as prices name them, whose uses an answer shows.
	Uses []string
	// Tiers are the names by which prices know a tier that has two.
	Tiers map[string]string
	// Inclusive means that the input which is reported includes what a cache gave and took.
	Inclusive bool
	// Counts means that the provider counts requests that fail.
	Counts bool
	// Array means that a streamed answer may be one array of events.
	Array bool
	// Masks means that a request may ask for an answer without its usage, as Google's field masks do.
	Masks bool
	// Enveloped means that an event of a stream is the base64 of the JSON, in "bytes".
	Enveloped bool
	// Last is the name of the event that ends a stream; empty if the tables say what does.
	Last string
	// Shape is how errors look.
	Shape *Shape

	asks, tells *jsonscan.Paths
}

// Ask is a path of a request, and what stands there.
type Ask struct {
	Path string
	Asked
}

// Tell is a path of an answer, and what stands there. Final means that a stream which has told it
// is whole.
type Tell struct {
	Path string
	Said
	Final bool
}

// Route is what a request's method, path and headers say of its call.
type Route struct {
	*Dialect
	// Model is the one that the path names; it stands over the body's. Empty: the body names it.
	Model string
	// Free means that the call costs nothing, as one that counts tokens.
	Free bool
	// Embeds means that the answer has no tokens of its own.
	Embeds bool
	// OneSearch means that all searches of the call are billed as one.
	OneSearch bool
	// Injects means that the usage of a streamed answer has to be asked for.
	Injects bool
}

// AlwaysSearches reports whether a model of Chat Completions searches in each call, whether or not the
// request asks for it.
func (r Route) AlwaysSearches(model string) bool {
	return r.Injects && (strings.Contains(model, "-search-preview") || strings.Contains(model, "-search-api"))
}

// tier is a named tier as prices call it.
func (d *Dialect) tier(name string) string {
	name = strings.ToLower(name)
	return cmp.Or(d.Tiers[name], name)
}

// Billed are the uses of tools for which a call is charged: those that its answer tells, and for a
// tool whose uses answers do not show, those that were held.
func (d *Dialect) Billed(told, held map[string]int64) map[string]int64 {
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
