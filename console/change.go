package console

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// mostForm bounds the bytes of a posted form, including its token with the settings of a source.
const mostForm = 64 << 10

// changeForm is a form of a change, its review (Token is set) or its result (Done is set).
type changeForm struct {
	ID, Verb, Class, Explain, Effect string
	// Action is the address of the form, and Back the page of the entity.
	Action, Back string
	// Options are the limits or sources to choose from, with their label. None is the text without any.
	TargetLabel string
	Options     []target
	None        string
	// AmountLabel is empty if the change has no amount.
	AmountLabel, AmountHint string
	AsksUntil               bool
	// Target, Amount, Until and Reason are the values as the visitor typed them.
	Target, Amount, Until, Reason string
	// Lines is the diff of the change, Token its form token, and Principal its author.
	Lines            []diff
	Token, Principal string
	Conflict         *conflict
	Done             string
}

// conflict has the settings of a source that the visitor saw, and those stored now.
type conflict struct{ Seen, Stored []string }

// cutChange splits the path of a change, entity/ID/change/KIND, into the entity's id and the kind. It returns
// false for another path.
func cutChange(path string) (id, kind string, ok bool) {
	rest, ok := strings.CutPrefix(path, "entity/")
	at := strings.LastIndex(rest, "/change/")
	if !ok || at < 0 {
		return "", "", false
	}
	return rest[:at], rest[at+len("/change/"):], true
}

// mayChange reports whether the visitor has the right to change the first entity of a chain: Access.Change, and
// not the top of its own subtree.
func mayChange(chain []admin.Owned, by Access) bool {
	return by.Change && chain[0].Entity.ID != by.Under
}

// changeLinks returns the links to the changes of the first entity of a chain; lifting a block only if it has
// one. It returns nil if the visitor may not change the entity.
func changeLinks(chain []admin.Owned, v *view) (acts []act) {
	if !mayChange(chain, v.access) {
		return nil
	}
	at := v.entityHref(chain[0].Entity.ID) + "/change/"
	acts = []act{{Text: "Raise a limit…", Href: at + "raise"}, {Text: "Grant more…", Href: at + "grant"}, {Text: "Refill…", Href: at + "refill"}}
	if slices.ContainsFunc(chain[0].Configs, func(s admin.ScopedConfig) bool { return isBlocked(s.Config) }) {
		acts = append(acts, act{Text: "Lift a block…", Href: at + "unblock"})
	}
	return append(acts, act{Text: "Block…", Href: at + "block", Class: "stop"})
}

// changePage returns the page of a change: its form, after a first post the diff and a form token. A second
// post with the token makes the change, and the page shows its result. It returns errMissing for an unknown
// kind, and if the visitor may not change the entity.
func (h *handler) changePage(ctx context.Context, v *view, r *http.Request, id, name string) (*page, string, error) {
	kind, known := changeKinds[name]
	if !known || !v.access.Change {
		return nil, "", errMissing
	}
	v.fresh = true
	chain, err := readChain(ctx, v, id)
	if err != nil {
		return nil, "", err
	}
	if !mayChange(chain, v.access) {
		return nil, "", errMissing
	}
	c, err := v.readCatalog(ctx, v.options.Resource)
	if err != nil {
		return nil, "", err
	}
	s := subject{view: v, owned: chain[0], main: c.Main}
	f := &changeForm{
		ID: id, Verb: kind.verb, Class: kind.class, Explain: kind.explain, Effect: kind.effect, Action: v.entityHref(id) + "/change/" + name, Back: v.entityHref(id),
		TargetLabel: kind.targetLabel, Options: kind.targets(s), None: kind.none, AmountLabel: kind.amountLabel, AmountHint: kind.amountHint, AsksUntil: kind.asksUntil, Principal: v.access.Principal,
	}
	p := &page{Title: kind.title, Nav: "entities", Crumbs: []link{{id, f.Back}}, Body: f}
	if r.Method != http.MethodPost {
		if kind.asksUntil {
			f.Until = v.now().In(v.options.Location).Add(suggestedRaise).Format(localTime)
		}
		return p, "change", nil
	}
	f.readValues(r.PostForm)
	if token := r.PostForm.Get("token"); token != "" {
		seen, ok := openToken(v.options.Key, token, v.now())
		if ok && seen.identity == h.identifyChange(v, id, name) {
			f.Token = token
			return p, "change", h.makeChange(ctx, s, kind, seen, p, f)
		}
		p.Notes = append(p.Notes, note{Title: "This form is too old, or of another login.", Text: "Nothing was changed. Look at the change once more."})
	}
	return p, "change", h.reviewChange(s, kind, h.identifyChange(v, id, name), p, f)
}

// readValues sets the form's target, amount, time and reason to the posted ones; amount and reason without
// blanks around them.
func (f *changeForm) readValues(posted url.Values) {
	f.Target, f.Amount, f.Until, f.Reason = posted.Get("target"), strings.TrimSpace(posted.Get("amount")), posted.Get("until"), strings.TrimSpace(posted.Get("reason"))
}

// identifyChange returns the identity of a change by the visitor: table, namespace, principal, subtree,
// session, kind and entity. A form token of another identity is refused.
func (h *handler) identifyChange(v *view, id, kind string) identity {
	return identity{h.table, h.repo.Namespace(), v.access.Principal, v.access.Under, v.access.Session, kind, id}
}

// reviewChange adds the diff of the typed change and its form token to f. If a value is wrong, it adds a note
// to p with status 422 instead. It writes nothing to the table, and fails only if the token cannot be made.
func (h *handler) reviewChange(s subject, kind changeKind, who identity, p *page, f *changeForm) error {
	at := slices.IndexFunc(f.Options, func(t target) bool { return t.Value == f.Target })
	if at < 0 {
		return f.refuseValues(p, "Choose one of the list.")
	}
	chosen := f.Options[at]
	seen := proposal{identity: who, Resource: chosen.resource, Limit: chosen.limit.Limit.Name, Reason: f.Reason, Expires: s.view.now().Add(tokenTime)}
	lines, err := kind.plan(s, chosen, f, &seen)
	if err != nil {
		return f.refuseValues(p, err.Error())
	}
	if kind.ofSource {
		source := s.ownConfig(seen.Resource)
		seen.Version, seen.Seen = source.Version, describeSettings(source, s.view.options.Location)
		if by := source.ManagedBy; by != "" {
			p.Notes = append(p.Notes, note{Title: "“" + by + "” keeps these limits.", Text: "Its next run reports this change as drift, or undoes it."})
		}
	} else {
		seen.Operation = newOperation()
	}
	f.Lines, seen.Lines = lines, lines
	f.Token, err = signProposal(s.view.options.Key, seen)
	return err
}

// newOperation returns a random id of a grant or refill, "console-" and 32 hexadecimal digits, so that a
// repeated request counts once.
func newOperation() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return "console-" + hex.EncodeToString(b)
}

// refuseValues makes the page show the form again, without a token, with a remark and the status 422. It always
// returns nil.
func (f *changeForm) refuseValues(p *page, text string) error {
	f.Token, p.Status = "", http.StatusUnprocessableEntity
	p.Notes = append(p.Notes, note{Class: "bad", Title: "Nothing was changed.", Text: text})
	return nil
}

// makeChange makes a confirmed change and puts the result into f. If the source was changed after the review,
// it makes nothing, and shows both versions and the review again with status 409. Refused values and a missing
// answer become notes; it returns other errors.
func (h *handler) makeChange(ctx context.Context, s subject, kind changeKind, seen proposal, p *page, f *changeForm) error {
	v, id := s.view, s.owned.Entity.ID
	f.Reason = seen.Reason
	if kind.ofSource {
		source := s.ownConfig(seen.Resource)
		if source.Version != seen.Version && kind.inForce(source, seen) {
			f.Done = "This is in force already."
			return nil
		}
		if source.Version != seen.Version {
			p.Status = http.StatusConflict
			p.Notes = append(p.Notes, note{Class: "bad", Title: "Somebody changed this meanwhile.", Text: "Nothing was changed by you. Look at both versions, and confirm again if your change is still right."})
			if err := h.reviewChange(s, kind, seen.identity, p, f); err != nil || f.Token == "" {
				return err
			}
			f.Conflict = &conflict{seen.Seen, describeSettings(source, v.options.Location)}
			return nil
		}
	}
	if err := v.takeUnits(changeUnits); err != nil {
		return err
	}
	defer forgetEntity(h.shared, id) // also without an answer
	lines, done, err := kind.make(ctx, admin.New(h.repo.As(v.access.Principal).WithReason(seen.Reason)), s, seen)
	var bad *dynalimit.ValidationError
	var raised *admin.ConflictError[admin.Raise]
	switch {
	case err == nil:
		f.Lines, f.Done = lines, done
	case errors.As(err, &bad):
		return f.refuseValues(p, bad.Field+" "+bad.Reason)
	case errors.As(err, &raised):
		return f.refuseValues(p, "Somebody raised this limit meanwhile: "+raised.Stored.String()+".")
	case errors.Is(err, dynalimit.ErrUnavailable):
		h.options.Log.Warn("dynalimit: console: a change has no answer", "entity", id, "error", err)
		p.Status = http.StatusServiceUnavailable
		p.Notes = append(p.Notes, note{Class: "bad", Title: "The table “" + h.table + "” did not answer.", Text: "The change may have been made or not. Send it again: it is made once."})
		f.Lines = seen.Lines
	default:
		return err
	}
	return nil
}
