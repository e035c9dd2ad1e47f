package console

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator"
)

// servePage answers a request for a page, a poll (JSON), a CSV file, or a change. It reads everything before it
// writes the first byte. It refuses other methods than GET and HEAD, except posts of changes by visitors with
// the right and of the doctor.
func (h *handler) servePage(w http.ResponseWriter, r *http.Request, access Access, path string) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	_, _, isChange := cutChange(path)
	switch {
	case r.Method == http.MethodGet, r.Method == http.MethodHead, r.Method == http.MethodPost && path == "doctor":
	case r.Method == http.MethodPost && isChange && access.Change:
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "This form cannot be read.", http.StatusBadRequest)
			return
		}
	case r.Method == http.MethodPost && isChange:
		http.Error(w, "You may not change anything here.", http.StatusForbidden)
		return
	default:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "This page shows and changes nothing.", http.StatusMethodNotAllowed)
		return
	}
	v := &view{visit: visit{reads: h.shared, access: access}, options: &h.options, table: h.table, query: r.URL.Query()}
	if id, ok := strings.CutSuffix(path, "/usage.csv"); ok && strings.HasPrefix(path, "entity/") {
		h.serveCSV(ctx, v, w, strings.TrimPrefix(id, "entity/"))
		return
	}
	p, name, err := h.openPage(ctx, v, r, path)
	if err != nil {
		h.serveFailure(w, r, v, err)
		return
	}
	if target, ok := p.Body.(redirect); ok {
		http.Redirect(w, r, string(target), http.StatusSeeOther)
		return
	}
	if v.query.Has("poll") {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"cells": v.cells, "stale": v.staleText()})
		return
	}
	if text := v.staleText(); text != "" {
		n := note{Class: "bad", Title: "The table “" + h.table + "” does not answer.", Text: text, Command: "dynalimit doctor --table " + h.table}
		if v.busy {
			n = note{Title: "The console has used its read units of this minute.", Text: text}
		}
		p.Notes = slices.Insert(p.Notes, 0, n)
	}
	h.drawPage(w, max(p.Status, http.StatusOK), v, p, name)
}

// redirect is the body of a page that is elsewhere.
type redirect string

// openPage returns the page of a path and the name of its template, or errMissing for an unknown path. A
// visitor of one subtree gets only its entities and alerts; its start page is a redirect.
func (h *handler) openPage(ctx context.Context, v *view, r *http.Request, path string) (*page, string, error) {
	if id, kind, ok := cutChange(path); ok {
		return h.changePage(ctx, v, r, id, kind)
	}
	if id, ok := strings.CutPrefix(path, "entity/"); ok {
		return entityPage(ctx, v, id)
	}
	if path == "alerts" {
		return alertsPage(ctx, v)
	}
	if v.access.Under != "" {
		if path == "" {
			return &page{Body: redirect(v.entityHref(v.access.Under))}, "", nil
		}
		return nil, "", errMissing
	}
	switch path {
	case "":
		return overviewPage(ctx, v)
	case "entities":
		return entitiesPage(ctx, v)
	case "models":
		return modelsPage(ctx, v)
	case "plans":
		return plansPage(ctx, v)
	case "audit":
		return auditPage(ctx, v)
	case "doctor":
		if v.options.Doctor != nil {
			return h.doctorPage(v, r)
		}
	}
	return nil, "", errMissing
}

// drawPage fills in the frame of p and writes the page with the status to w; it answers 500 if the template
// fails. The frame shows nothing of the table to visitors of a subtree but its name.
func (h *handler) drawPage(w http.ResponseWriter, status int, v *view, p *page, name string) {
	p.Prefix, p.Brand, p.Table, p.Where, p.Principal = h.options.Prefix, h.options.Theme.Title, h.table, h.options.Where, v.access.Principal
	if p.Brand == "" {
		p.Brand = "dynalimit"
	}
	p.Zone, p.Style, p.Script, p.Icon = h.options.Location.String(), styleName, scriptName, iconName
	p.Accent, p.Logo = h.accent, h.logo
	p.Limited, p.Doctor, p.Changes = v.access.Under != "", h.options.Doctor != nil, v.access.Change
	var drawn bytes.Buffer
	if err := pages[name].ExecuteTemplate(&drawn, "layout", p); err != nil {
		h.options.Log.Error("dynalimit: console: a page cannot be drawn", "page", name, "error", err)
		http.Error(w, "This page failed. The log of the service has the reason.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(drawn.Bytes())
}

// serveFailure answers with a page, or for a poll a text, with the status of an error: 404, 429, 503, 403 or
// 500. It logs the details of the last three, which visitors must not see.
func (h *handler) serveFailure(w http.ResponseWriter, r *http.Request, v *view, err error) {
	status, n := http.StatusInternalServerError, note{Class: "bad", Title: "This page failed.", Text: "The log of the service has the reason."}
	var bad *dynalimit.ValidationError
	switch {
	case errors.Is(err, errMissing), errors.As(err, &bad):
		status, n = http.StatusNotFound, note{Title: "There is nothing here.", Text: "Check the address, or begin at the overview."}
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "60")
		status, n = http.StatusTooManyRequests, note{Title: "The console has used its read units of this minute.", Text: "Try again in a minute. Options.ReadUnits is the bound."}
	case errors.Is(err, dynalimit.ErrUnavailable):
		status, n = http.StatusServiceUnavailable, note{
			Class: "bad", Title: "The table “" + h.table + "” does not answer.", Text: "Calls are handled by each service's own policy meanwhile.", Command: "dynalimit doctor --table " + h.table,
		}
	case deniedAction(err) != "":
		status, n = http.StatusForbidden, note{Class: "bad", Title: "The console's role may not do this.", Text: "It lacks the action " + deniedAction(err) + ". docs/permissions.md has the roles “Reads” and, for changes, “Administers”."}
	}
	if status == http.StatusInternalServerError || status == http.StatusForbidden || status == http.StatusServiceUnavailable {
		h.options.Log.Warn("dynalimit: console: a page failed", "path", r.URL.Path, "error", err)
	}
	if v.query.Has("poll") {
		http.Error(w, n.Title, status)
		return
	}
	h.drawPage(w, status, v, &page{Title: "Console", Notes: []note{n}, Body: struct{}{}}, "blank")
}

// deniedAction returns the IAM action that AWS denied to a request, such as "dynamodb:Query"; "" for other
// errors.
func deniedAction(err error) string {
	var api interface{ ErrorCode() string }
	var operation interface{ Operation() string }
	if !errors.As(err, &api) || api.ErrorCode() != "AccessDeniedException" {
		return ""
	}
	if errors.As(err, &operation) {
		return "dynamodb:" + operation.Operation()
	}
	return "of this read"
}

// mostCSV bounds the lines of a CSV file.
const mostCSV = 100_000

// serveCSV answers with a CSV file of an entity's exact usage in tokens or dollars, of its closed days among
// the last 90. It answers 404 if the visitor may not see the entity.
func (h *handler) serveCSV(ctx context.Context, v *view, w http.ResponseWriter, id string) {
	chain, err := readChain(ctx, v, id)
	var closed time.Time
	if err == nil {
		closed, err = v.closedTo(ctx)
	}
	if err == nil {
		_, err = v.readCatalog(ctx, v.options.Resource) // it knows the limits of money
	}
	var days []aggregator.Usage
	if err == nil && !closed.IsZero() {
		days, err = entityUsage(ctx, v, chain, "", aggregator.Day, midnight(closed).AddDate(0, 0, -90), midnight(closed))
	}
	if err != nil {
		switch {
		case errors.Is(err, errMissing) || isInvalid(err):
			http.Error(w, "There is nothing here.", http.StatusNotFound)
		case errors.Is(err, errBusy):
			http.Error(w, "The console has used its read units of this minute.", http.StatusTooManyRequests)
		default:
			h.options.Log.Warn("dynalimit: console: a CSV file failed", "error", err)
			http.Error(w, "The usage cannot be read now.", http.StatusServiceUnavailable)
		}
		return
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="usage.csv"`)
	writeCSV(csv.NewWriter(w), v, id, days)
}

// writeCSV writes a header and the lines of an entity's days to out, up to mostCSV lines, and flushes it. Each
// limit of a day has a line, or one for each model and one for the others. It ignores errors of the writer.
func writeCSV(out *csv.Writer, v *view, id string, days []aggregator.Usage) {
	defer out.Flush()
	_ = out.Write([]string{"day", "entity", "resource", "limit", "unit", "model", "amount", "final"})
	lines := 0
	for _, u := range days {
		for _, l := range u.Limits {
			unit, money := "tokens", v.isMoney(l.Limit)
			if money {
				unit = dynalimit.USD
			}
			for _, part := range partsByModel(l) {
				if lines++; lines > mostCSV {
					return
				}
				_ = out.Write([]string{u.Start.Format(time.DateOnly), escapeFormula(id), escapeFormula(u.Resource), escapeFormula(l.Limit), unit, escapeFormula(part.model), exactAmount(money, part.n), fmt.Sprint(u.Final)})
			}
		}
	}
}

type examination struct {
	Findings []shownFinding
	Ran      bool
}

type shownFinding struct{ Class, Word, Text, Fix string }

// doctorPage returns the page of the doctor. A post examines the table, for at most 2 minutes and for one
// visitor at a time; another one gets a note. An examination takes 20 read units.
func (h *handler) doctorPage(v *view, r *http.Request) (*page, string, error) {
	b := &examination{}
	p := &page{Title: "Doctor", Nav: "doctor", Body: b}
	if r.Method != http.MethodPost {
		return p, "doctor", nil
	}
	select {
	case h.examining <- struct{}{}:
		defer func() { <-h.examining }()
	default:
		p.Notes = []note{{Title: "Another visitor's examination is under way.", Text: "Try again in a minute."}}
		return p, "doctor", nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), doctorTime)
	defer cancel()
	if err := v.takeUnits(20); err != nil {
		return nil, "", err
	}
	findings, err := v.options.Doctor(ctx)
	if err != nil {
		return nil, "", err
	}
	b.Ran = true
	for _, f := range findings {
		shown := shownFinding{Class: "ok", Word: "good", Text: f.Check + ": " + f.Found, Fix: f.Fix}
		switch f.Status {
		case "hint":
			shown.Class, shown.Word = "", "hint"
		case "warning":
			shown.Class, shown.Word = "warn", "remark"
		case "wrong":
			shown.Class, shown.Word = "bad", "fault"
		case "ok":
		default:
			shown.Class, shown.Word = "", f.Status
		}
		b.Findings = append(b.Findings, shown)
	}
	return p, "doctor", nil
}
