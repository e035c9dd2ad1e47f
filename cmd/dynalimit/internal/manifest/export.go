package manifest

import (
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/admin"
)

// Manager returns the name of the only manifest that manages items of a table. It returns DefaultName if none
// or several do, or the name is invalid.
func Manager(live *Live) string {
	names := map[string]bool{}
	for _, c := range live.Configs {
		names[c.ManagedBy] = true
	}
	for _, e := range live.Entities {
		names[e.ManagedBy] = true
	}
	delete(names, "")
	for name := range names {
		if len(names) == 1 && CheckName(name) == "" {
			return name
		}
	}
	return DefaultName
}

// Export returns the manifest of a table's content, and the reasons that some sources are not in it. If managed
// is true, it has only items that the manifest name manages. It leaves out entities in deletion, and without a
// reason sources that only have raises.
func Export(live *Live, name, namespace string, managed bool) (m *Manifest, notes map[admin.Scope]string) {
	m = &Manifest{Name: name, Namespace: namespace, Configs: map[admin.Scope]admin.LimitConfig{}, Entities: map[string]Entity{}}
	notes = map[admin.Scope]string{}
	for at, c := range live.Configs {
		if live.Entities[at.Entity].Deleting || managed && c.ManagedBy != name {
			continue
		}
		if len(c.Raises) > 0 && sameSource(c, admin.LimitConfig{}) {
			continue
		}
		if why := whyUnwritable(c); why != "" {
			notes[at] = why
			continue
		}
		m.addSource(at, c)
	}
	for at, why := range live.Unreadable {
		if !live.Entities[at.Entity].Deleting {
			notes[at] = why
		}
	}
	for id, e := range live.Entities {
		if e.Deleting || managed && e.ManagedBy != name {
			continue
		}
		m.addRecord(id, e)
	}
	return m, notes
}

// addRecord adds a stored record to m.Entities, in place of an entity without one, but without its version,
// manager and time of creation.
func (m *Manifest) addRecord(id string, e admin.Entity) {
	e.Version, e.ManagedBy, e.CreatedAt = 0, "", time.Time{}
	e.Cascade = e.Cascade && e.ParentID != "" // meaningless without a parent
	m.Entities[id] = Entity{Record: e}
}

// addSource adds a stored configuration to m.Configs without its version and manager. For a source of an entity
// it also sets the entity, as one without a record.
func (m *Manifest) addSource(at admin.Scope, c admin.LimitConfig) {
	c.Version, c.ManagedBy = 0, ""
	m.Configs[at] = c
	if at.Entity != "" {
		m.Entities[at.Entity] = Entity{Record: admin.Entity{ID: at.Entity}, LimitsOnly: true}
	}
}

// whyUnwritable returns the reason that a manifest cannot express a configuration, or "" if it can.
func whyUnwritable(c admin.LimitConfig) string {
	if sameSource(c, admin.LimitConfig{}) {
		return "says nothing"
	}
	for _, l := range c.Limits {
		if _, why := parsePeriod(periodOf(l)); why != "" && !l.IsQuota() && !l.IsConcurrent() {
			return fmt.Sprintf("the period of %s %s", l.Name, why)
		}
		if max(l.Capacity, l.Burst, l.RefillAmount) > mostTokens || min(l.Capacity, l.Burst, l.RefillAmount) < 1 {
			return fmt.Sprintf("the limit %s has an amount that cannot be written", l.Name)
		}
	}
	return ""
}
