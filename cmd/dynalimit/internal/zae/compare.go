package zae

import (
	"maps"
	"slices"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// zae-limiter takes each of its flags from the most specific source that has it: an entity on a
// resource, the entity, the resource. Here a block of any source holds, limits and 'unlimited'
// belong to one source, and only the record decides whether a parent is charged.

// compareAll reports differences between zae-limiter's flags and the manifest, for each entity and resource
// with such flags. Before that it changes the records of entities with the flag cascade at their default, which
// decides whether their parent counts.
func (t *translator) compareAll() {
	flagged, entities := map[string]bool{}, map[string]map[string]bool{}
	for at, f := range t.flags {
		if (f.isDecisive() || f.cascade != nil) && at.Entity == "" {
			flagged[at.Resource] = true
		}
		if at.Entity != "" {
			if entities[at.Entity] == nil {
				entities[at.Entity] = map[string]bool{}
			}
			entities[at.Entity][at.Resource] = true
		}
	}
	for id, e := range t.out.Manifest.Entities {
		if own := t.flags[admin.Scope{Entity: id}].cascade; own != nil && e.Record.ParentID != "" {
			e.Record = setParentLink(e.Record, *own) // the entity's default precedes its record
			t.out.Manifest.Entities[id] = e
		}
		if entities[id] == nil {
			entities[id] = map[string]bool{}
		}
	}
	for id, own := range entities {
		resources := maps.Clone(own)
		maps.Copy(resources, flagged)
		delete(resources, "")
		for resource := range resources {
			t.compareAccess(id, resource)
			t.compareCascade(id, resource)
		}
	}
}

// sourcesFor returns the four scopes of zae-limiter's sources of an entity on a resource, the most specific
// first, whether stored or not.
func sourcesFor(entity, resource string) [4]admin.Scope {
	return [4]admin.Scope{{Entity: entity, Resource: resource}, {Entity: entity}, {Everyone: true, Resource: resource}, {Everyone: true}}
}

// compareAccess adds a lack for an entity on a resource if the manifest and zae-limiter refuse, admit or limit
// its calls differently.
func (t *translator) compareAccess(entity, resource string) {
	there, here := t.accessThere(entity, resource), t.accessHere(entity, resource)
	if there != here {
		t.addLack(admin.Scope{Entity: entity, Resource: resource}.String(),
			"there %s, and by the manifest %s: a block here is lifted at its own source alone, and limits of a more specific source win; write the sources so that they say what you mean", there, here)
	}
}

const (
	refused = "every call is refused"
	free    = "no call is limited"
)

// accessThere describes zae-limiter's treatment of an entity's calls on a resource: unlimited, refused, or
// limited by a source.
func (t *translator) accessThere(entity, resource string) string {
	all := sourcesFor(entity, resource)
	for _, at := range all[:3] {
		f := t.flags[at]
		switch {
		case f.bypass:
			return free
		case f.disabled != nil && *f.disabled:
			return refused
		case f.disabled != nil:
			return t.describeLimitsInForce(all, false)
		}
	}
	return t.describeLimitsInForce(all, false)
}

// accessHere describes the manifest's treatment of an entity's calls on a resource, in the words of
// accessThere, so that texts can be compared.
func (t *translator) accessHere(entity, resource string) string {
	all := sourcesFor(entity, resource)
	for _, at := range all {
		if t.out.Manifest.Configs[at].Blocked {
			return refused
		}
	}
	return t.describeLimitsInForce(all, true)
}

// describeLimitsInForce returns a text that names the first of the scopes all with limits in zae-limiter's
// table, or says that no source has any. If unlimited is true, a source that is unlimited in the manifest
// counts too.
func (t *translator) describeLimitsInForce(all [4]admin.Scope, unlimited bool) string {
	for _, at := range all {
		if unlimited && t.out.Manifest.Configs[at].Unlimited {
			return free
		}
		if _, limited := t.limited[at]; limited {
			return "the limits of " + at.String() + " hold"
		}
	}
	return "there are no limits"
}

// compareCascade adds a lack for an entity on a resource if only one of zae-limiter and the manifest charges
// its parent. The most specific flag cascade decides for zae-limiter.
func (t *translator) compareCascade(entity, resource string) {
	record := t.out.Manifest.Entities[entity].Record
	if record.ParentID == "" {
		return
	}
	for _, at := range sourcesFor(entity, resource) {
		if cascade := t.flags[at].cascade; cascade != nil {
			if *cascade != record.Cascade {
				t.addLack(admin.Scope{Entity: entity, Resource: resource}.String(), "'cascade: %t' is said by %s: here the record of the entity says it for all resources, and it says %t", *cascade, at, record.Cascade)
			}
			return
		}
	}
}

// cutParentChains removes the parent of each record with a cycle or a too long chain, and adds a lack. It also
// adds one for an entity with a grandparent that counts, because zae-limiter charges one parent only.
func (t *translator) cutParentChains() {
	entities := t.out.Manifest.Entities
	for _, id := range slices.Sorted(maps.Keys(entities)) {
		e := entities[id]
		chain := []string{id}
		for parent := e.Record.ParentID; parent != ""; parent = entities[parent].Record.ParentID {
			if slices.Contains(chain, parent) || len(chain) == schema.MaxDepth {
				t.addLack("entity "+id, "its parent %q makes a cycle, or a chain of more than %d entities: name another one", e.Record.ParentID, schema.MaxDepth)
				e.Record.ParentID = ""
				e.Record = setParentLink(e.Record, false)
				entities[id] = e
				break
			}
			chain = append(chain, parent)
		}
		if parent := entities[e.Record.ParentID]; e.Record.Cascade && parent.Record.Cascade {
			t.addLack("entity "+id, "its calls charge %q, and here also its parent %q: write 'detached: true' and no cascade at %q if that is not meant", e.Record.ParentID, parent.Record.ParentID, e.Record.ParentID)
		}
	}
}

// reportUndecidedParents adds a lack for each parent of records that do not say whether to charge it, with
// their number. Until zae-limiter 0.5 each call made that decision.
func (t *translator) reportUndecidedParents() {
	children := map[string]int{}
	for id := range t.silent {
		children[t.out.Manifest.Entities[id].Record.ParentID]++
	}
	delete(children, "")
	for parent, n := range children {
		t.addLack("entity "+parent, "each call said whether it charges this parent, and the manifest says no: write 'cascade: true' below it, and no detached, where they did (%d %s)", n, notation.Plural(n, "child", "children"))
	}
}
