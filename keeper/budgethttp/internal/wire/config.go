package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/keeper/budget"
)

// Org is an organisation's configuration. It contains no credentials.
type Org struct {
	Name          string   `json:"org_name,omitempty" maxLength:"256" doc:"For people" example:"sample_corp"`
	Timezone      string   `json:"timezone" minLength:"1" maxLength:"64" doc:"An IANA name. Its local date is the organisation's day. It cannot be changed" example:"America/New_York"`
	Scope         string   `json:"quota_scope,omitempty" enum:"ORG,APP" doc:"ORG: one total for all apps. APP: each app has its own. Defaults to what is stored, else APP; it cannot be changed"`
	Ordering      Ordering `json:"model_ordering" minItems:"1" maxItems:"64" nullable:"false" doc:"Labels from the preferred to the last resort, each once; each has a quota"`
	Quotas        Quotas   `json:"quotas" maxProperties:"128" doc:"In millionths of a dollar per day, by label: 0 to 10^12"`
	Models        Models   `json:"models,omitempty" maxProperties:"128" doc:"Model ids by label. Labels that are left out have the keeper's"`
	TightPercent  int      `json:"tight_mode_threshold_pct,omitempty" minimum:"50" maximum:"100" doc:"Where mode TIGHT begins. Defaults to 95"`
	Shards        int      `json:"agg_shard_count,omitempty" minimum:"1" maximum:"256" doc:"How many counters a day is spread over. Defaults to 8"`
	Sticky        *bool    `json:"sticky_fallback_enabled,omitempty" doc:"Whether the label in use is kept on record. Defaults to true"`
	RefreshNormal int64    `json:"refresh_interval_normal_secs,omitempty" minimum:"1" maximum:"86400" doc:"How long a selection may be kept. Defaults to 300"`
	RefreshTight  int64    `json:"refresh_interval_tight_secs,omitempty" minimum:"1" maximum:"86400" doc:"How long, in mode TIGHT. Defaults to 60"`
	Version       int64    `json:"version,omitempty" minimum:"1" doc:"Of a PUT: the version that it replaces; left out: any"`
}

// Budget converts the body of a PUT to the keeper's organisation with the given id.
func (o Org) Budget(id string) budget.Org {
	return budget.Org{
		ID: id, Name: o.Name, Timezone: o.Timezone, Scope: budget.Scope(o.Scope), Ordering: o.Ordering, Quotas: o.Quotas,
		Models: o.Models, TightPercent: o.TightPercent, Shards: o.Shards,
		NoSticky:          o.Sticky != nil && !*o.Sticky,
		RefreshNormalSecs: o.RefreshNormal, RefreshTightSecs: o.RefreshTight, Version: o.Version,
	}
}

// IfMatch is the conditional headers of a PUT.
type IfMatch struct {
	IfMatch     string `header:"If-Match" maxLength:"24" doc:"The version that it replaces, as ETag has it; left out: any" example:"\"3\""`
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"Only if there is none yet" example:"*"`
}

// ETag returns a version in quotes, the form of the header ETag.
func ETag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }

// Version returns the version that a PUT may replace, from its headers and the one in its body: 0 for any,
// NoVersion for none. It returns a 400 response as the error for contradictions and for a malformed If-Match.
func (m IfMatch) Version(inBody int64) (int64, error) {
	switch {
	case m.IfNoneMatch != "" && m.IfMatch == "" && inBody == 0:
		return budget.NoVersion, nil
	case m.IfNoneMatch != "":
		const reason = "leave out If-Match and the version in the body: there is none yet"
		return 0, NewError(http.StatusBadRequest, InvalidRequest, "header.If-None-Match: "+reason).Field("header.If-None-Match", reason)
	case m.IfMatch == "":
		return inBody, nil
	}
	version, err := strconv.ParseInt(strings.Trim(m.IfMatch, `"`), 10, 64)
	if err != nil || version < 1 || inBody != 0 && version != inBody {
		const reason = `expected the version of a GET, such as "3", and no other in the body`
		return 0, NewError(http.StatusBadRequest, InvalidRequest, "header.If-Match: "+reason).Field("header.If-Match", reason)
	}
	return version, nil
}

// Versions is the version of a configuration and the times of its changes.
type Versions struct {
	Version   int64     `json:"version" doc:"Rises with every change"`
	CreatedAt time.Time `json:"created_at,omitzero" doc:"The first PUT"`
	UpdatedAt time.Time `json:"updated_at,omitzero" doc:"The last PUT"`
}

// StoredOrg is a stored organisation.
type StoredOrg struct {
	ID string `json:"org_id" doc:"The organisation"`
	Versions
	Config Org `json:"config" doc:"As it was put, with what was left out"`
	Issued
}

// NewOrg converts an organisation of the keeper for a response, with times in UTC. It leaves the credentials
// empty.
func NewOrg(o budget.Org) StoredOrg {
	sticky := o.Sticky
	return StoredOrg{
		ID:       o.ID,
		Versions: Versions{o.Version, o.CreatedAt.UTC(), o.UpdatedAt.UTC()},
		Config: Org{
			Name: o.Name, Timezone: o.Timezone, Scope: string(o.Scope), Ordering: o.Ordering, Quotas: o.Quotas,
			Models: o.Models, TightPercent: o.TightPercent, Shards: o.Shards, Sticky: &sticky,
			RefreshNormal: o.RefreshNormalSecs, RefreshTight: o.RefreshTightSecs,
		},
	}
}

// App is an app's configuration. It inherits missing fields from the organisation.
type App struct {
	Name          string   `json:"app_name,omitempty" maxLength:"256" doc:"For people" example:"Production API"`
	Ordering      Ordering `json:"model_ordering,omitempty" maxItems:"64" nullable:"false" doc:"Labels from the preferred to the last resort"`
	Quotas        Quotas   `json:"quotas,omitempty" maxProperties:"128" doc:"In millionths of a dollar per day, by label: 0 to 10^12; inherited as a whole"`
	Models        Models   `json:"models,omitempty" maxProperties:"128" doc:"Model ids by label; inherited as a whole"`
	TightPercent  int      `json:"tight_mode_threshold_pct,omitempty" minimum:"50" maximum:"100" doc:"Where mode TIGHT begins"`
	RefreshNormal int64    `json:"refresh_interval_normal_secs,omitempty" minimum:"1" maximum:"86400" doc:"How long a selection may be kept"`
	RefreshTight  int64    `json:"refresh_interval_tight_secs,omitempty" minimum:"1" maximum:"86400" doc:"How long, in mode TIGHT"`
	Version       int64    `json:"version,omitempty" minimum:"1" doc:"Of a PUT: the version that it replaces; left out: any"`
}

// Budget converts the body of a PUT to the keeper's app with the given id.
func (a App) Budget(id string) budget.App {
	return budget.App{
		ID: id, Name: a.Name, Ordering: a.Ordering, Quotas: a.Quotas, Models: a.Models,
		TightPercent: a.TightPercent, RefreshNormalSecs: a.RefreshNormal, RefreshTightSecs: a.RefreshTight, Version: a.Version,
	}
}

// StoredApp is a stored app.
type StoredApp struct {
	Org string `json:"org_id" doc:"The organisation"`
	ID  string `json:"app_id" doc:"The app"`
	Versions
	Config App `json:"config" doc:"As it was put, without what is inherited"`
	Issued
}

// NewApp converts an app of the keeper for a response, with times in UTC and without inherited fields. It
// leaves the credentials empty.
func NewApp(org string, a budget.App) StoredApp {
	return StoredApp{
		Org: org, ID: a.ID,
		Versions: Versions{Version: a.Version, CreatedAt: a.CreatedAt.UTC(), UpdatedAt: a.UpdatedAt.UTC()},
		Config: App{
			Name: a.Name, Ordering: a.Ordering, Quotas: a.Quotas, Models: a.Models,
			TightPercent: a.TightPercent, RefreshNormal: a.RefreshNormalSecs, RefreshTight: a.RefreshTightSecs,
		},
	}
}
