package infra

import (
	"maps"
	"slices"
)

// Model is a deployment.
type Model struct {
	Options
	Tables []Table
	Roles  []Role
	Alarms []Alarm
}

// New describes a deployment. It fails with an error that names the option that is wrong.
func New(o Options) (*Model, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	m := &Model{Options: o}
	var err error
	if m.Tables, err = tables(o); err != nil {
		return nil, err
	}
	if o.Has(PartRoles) {
		m.Roles = roles(o)
	}
	if o.Aggregator {
		m.Roles = append(m.Roles, aggregatorRole())
	}
	if o.Archive {
		m.Roles = append(m.Roles, archiveRole())
	}
	if o.Tail {
		m.Roles = append(m.Roles, tailRole())
	}
	if o.Keeper {
		m.Roles = append(m.Roles, keeperRole(o))
	}
	if o.Has(PartAlarms) {
		m.Alarms = append(alarms(m.Tables), streamAlarms(o, m.Tables[0].ID)...)
		if o.Archive {
			m.Alarms = append(m.Alarms, archiveAlarms(m.Tables[0].ID)...)
		}
	}
	return m, nil
}

// name is the default name of a table.
func (m *Model) name(id string) string {
	for _, t := range m.Tables {
		if t.ID == id {
			return *t.Input.TableName
		}
	}
	return ""
}

// tagKeys are the keys of the tags, in order.
func (m *Model) tagKeys() []string { return slices.Sorted(maps.Keys(m.Tags)) }
