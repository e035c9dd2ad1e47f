package console_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/console"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// post sends a form.
func (o *office) post(path string, values url.Values) (*httptest.ResponseRecorder, ddbmem.Meter) {
	r := httptest.NewRequest(http.MethodPost, "http://localhost:7777"+path, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return o.send(r)
}

var hiddenInput = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// review posts a form, and returns the second form that its answer has.
func (o *office) review(t *testing.T, path string, values url.Values) url.Values {
	t.Helper()
	answer, used := o.post(path, values)
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	assert.Zero(t, used.WriteUnits(), "a review writes nothing")
	return secondForm(t, answer)
}

func secondForm(t *testing.T, answer *httptest.ResponseRecorder) url.Values {
	t.Helper()
	second := url.Values{}
	for _, m := range hiddenInput.FindAllStringSubmatch(answer.Body.String(), -1) {
		second.Set(m[1], html.UnescapeString(m[2]))
	}
	require.NotEmpty(t, second.Get("token"), answer.Body)
	return second
}

// changing is an office whose visitor may change entities.
func changing(t *testing.T) *office {
	o := newOffice(t, func(o *console.Options) { o.ReadUnits = 1e6 })
	o.access = console.Access{Principal: "mira@dynalimit.example", Change: true, Session: "one"}
	return o
}

// left is the rest of a quota.
func (o *office) left(t *testing.T, id, limit string) int64 {
	t.Helper()
	buckets, err := o.Admin.Buckets.GetMany(t.Context(), []admin.BucketID{{EntityID: id, Resource: "all"}})
	require.NoError(t, err)
	for _, l := range buckets[0].Limits {
		if l.Limit.Name == limit {
			return l.Remaining
		}
	}
	t.Fatalf("%s has no limit %s", id, limit)
	return 0
}

// lastEvent is the newest event of an entity.
func (o *office) lastEvent(t *testing.T, id string) (last audit.Event) {
	t.Helper()
	for e, err := range o.Admin.AuditEvents(t.Context(), audit.Query{Target: id}) {
		require.NoError(t, err)
		last = e
	}
	return last
}

// TestChangesAreMadeAfterTheirDiff: each kind, with its diff, its event with author and reason, and its effect.
func TestChangesAreMadeAfterTheirDiff(t *testing.T) {
	o := changing(t)
	const path, id = "/entity/acme.search.ann/change/", "acme.search.ann"
	config := func() admin.LimitConfig {
		all, err := o.Admin.Limits.GetConfig(t.Context(), admin.Scope{Entity: id, Resource: "all"})
		require.NoError(t, err)
		return all
	}
	before := o.left(t, id, "usd")
	for _, c := range []struct {
		kind         string
		values       url.Values
		lines        []string
		done, action string
	}{
		{"raise", url.Values{"target": {"all rpm"}, "amount": {"600"}, "until": {"2026-11-28T09:00"}, "reason": {"the launch"}}, []string{"− rpm: 120 a minute", "+ rpm: 600 a minute until Nov 28 2026, 09:00 +00:00"}, "Raised.", "limit_raised"},
		{"raise", url.Values{"target": {"all rpm"}, "amount": {"300"}, "until": {"2026-11-28T08:00"}}, []string{"− rpm: 600 a minute until Nov 28 2026, 09:00 +00:00", "+ rpm: 300 a minute until Nov 28 2026, 08:00"}, "Raised.", "limit_raised"},
		{"grant", url.Values{"target": {"all usd"}, "amount": {"$1,000.50"}}, []string{" left of $20.00 a day, UTC", " left, until Nov 28 2026, 00:00 +00:00"}, "Granted.", "bucket_granted"},
		{"block", url.Values{"target": {""}}, []string{"+ blocked"}, "Blocked.", "block_set"},
		{"unblock", url.Values{"target": {""}}, []string{"− blocked"}, "The block is lifted.", "block_lifted"},
		{"refill", url.Values{"target": {"all rpm"}}, nil, "", ""},
	} {
		if c.kind == "refill" {
			answer, _ := o.post(path+c.kind, c.values)
			assert.Equal(t, http.StatusUnprocessableEntity, answer.Code)
			assert.Contains(t, answer.Body.String(), "it is full already")
			continue
		}
		form, _ := o.get(path + c.kind)
		require.Equal(t, http.StatusOK, form.Code)
		answer, _ := o.post(path+c.kind, c.values)
		text := html.UnescapeString(answer.Body.String())
		for _, line := range c.lines {
			assert.Contains(t, text, line, c.kind)
		}
		done, _ := o.post(path+c.kind, secondForm(t, answer))
		assert.Equal(t, http.StatusOK, done.Code)
		assert.Contains(t, done.Body.String(), c.done)
		event := o.lastEvent(t, id)
		assert.Equal(t, []string{c.action, "mira@dynalimit.example", c.values.Get("reason")}, []string{event.Action, event.Principal, event.Reason})
		page, _ := o.get("/entity/" + id)
		assert.Contains(t, page.Body.String(), "mira@dynalimit.example", "at once")
	}
	assert.Equal(t, int64(300), config().Raises[0].Capacity)
	assert.Equal(t, before+1_000_500_000, o.left(t, id, "usd"))
	page, _ := o.get("/audit")
	assert.Contains(t, page.Body.String(), "the launch")
}

// TestGrantPostedTwiceGrantsOnce: by the same form, also at another replica with the key.
func TestGrantPostedTwiceGrantsOnce(t *testing.T) {
	o := changing(t)
	key := []byte(strings.Repeat("k", 32))
	replica := func() http.Handler {
		h, err := console.New(o.Repo, nil, &console.Options{Now: o.Now, Key: key, Authorize: func(*http.Request) (console.Access, error) { return o.access, nil }})
		require.NoError(t, err)
		return h
	}
	own, first, second := o.handler, replica(), replica()
	const path, id = "/entity/acme.search.ann/change/grant", "acme.search.ann"
	before := o.left(t, id, "usd")
	o.handler = first
	form := o.review(t, path, url.Values{"target": {"all usd"}, "amount": {"20"}})
	o.handler = second
	for i, text := range []string{"Granted.", "and is not repeated"} {
		answer, _ := o.post(path, form)
		assert.Contains(t, answer.Body.String(), text, i)
		assert.Equal(t, before+20_000_000, o.left(t, id, "usd"))
		o.handler = first
	}
	o.handler = own // another key
	answer, used := o.post(path, form)
	assert.Contains(t, answer.Body.String(), "too old, or of another login")
	assert.Contains(t, answer.Body.String(), `name="amount" value="20"`, "the values stay")
	assert.Zero(t, used.WriteUnits())
	assert.Equal(t, before+20_000_000, o.left(t, id, "usd"))
}

// TestFormsOfOthersChangeNothing: another visitor, session, subtree, entity or kind, a changed token, an old one, and a
// visitor who may change nothing any more.
func TestFormsOfOthersChangeNothing(t *testing.T) {
	o := changing(t)
	const path = "/entity/acme.search.ann/change/"
	form := o.review(t, path+"grant", url.Values{"target": {"all usd"}, "amount": {"20"}})
	was := o.access
	token := form.Get("token")
	for name, c := range map[string]struct {
		path   string
		access console.Access
		token  string
		after  time.Duration
		code   int
	}{
		"another principal": {path + "grant", console.Access{Principal: "ann", Change: true, Session: "one"}, token, 0, 200},
		"another session":   {path + "grant", console.Access{Principal: was.Principal, Change: true, Session: "two"}, token, 0, 200},
		"another subtree":   {path + "grant", console.Access{Principal: was.Principal, Change: true, Session: "one", Under: "acme"}, token, 0, 200},
		"outside":           {path + "grant", console.Access{Principal: was.Principal, Change: true, Session: "one", Under: "globex"}, token, 0, 404},
		"its own level":     {path + "grant", console.Access{Principal: was.Principal, Change: true, Session: "one", Under: "acme.search.ann"}, token, 0, 404},
		"read only":         {path + "grant", console.Access{Principal: was.Principal, Session: "one"}, token, 0, 403},
		"nobody":            {path + "grant", console.Access{Change: true, Session: "one"}, token, 0, 403},
		"another entity":    {"/entity/acme.search/change/grant", was, token, 0, 200},
		"another kind":      {path + "refill", was, token, 0, 200},
		"an unknown kind":   {path + "delete", was, token, 0, 404},
		"a changed token":   {path + "grant", was, "e30" + token, 0, 200},
		"another signature": {path + "grant", was, token[:len(token)-4] + "AAAA", 0, 200},
		"an old token":      {path + "grant", was, token, 11 * time.Minute, 200},
	} {
		began := o.Now()
		o.SetTime(began.Add(c.after))
		o.access = c.access
		form.Set("token", c.token)
		answer, used := o.post(c.path, form)
		assert.Equal(t, c.code, answer.Code, name)
		assert.Zero(t, used.WriteUnits(), name)
		o.SetTime(began)
	}
	o.access = was
	for name, headers := range map[string]string{"another page": "cross-site", "another port": "same-site"} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost:7777"+path+"grant", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", headers)
		answer, used := o.send(r)
		assert.Equal(t, http.StatusForbidden, answer.Code, name)
		assert.Zero(t, used.Requests(), name)
	}
	o.access.Change = false
	page, _ := o.get("/entity/acme.search.ann")
	assert.NotContains(t, page.Body.String(), "/change/")
	answer, _ := o.get(path + "grant")
	assert.Equal(t, http.StatusNotFound, answer.Code, "no forms")
}

// TestConflictShowsBothVersions: nothing is changed until the visitor confirms again. A repetition shows that the change
// is in force.
func TestConflictShowsBothVersions(t *testing.T) {
	o := changing(t)
	ctx, at := t.Context(), admin.Scope{Entity: "acme.search.prod", Resource: "all"}
	const path = "/entity/acme.search.prod/change/block"
	form := o.review(t, path, url.Values{"target": {"all"}})
	c, err := o.Admin.Limits.GetConfig(ctx, at)
	require.NoError(t, err)
	c.Limits[0].Capacity, c.Limits[0].Burst, c.Limits[0].RefillAmount, c.ManagedBy = 700, 0, 0, "terraform"
	_, err = o.Admin.Limits.SetConfig(ctx, at, c)
	require.NoError(t, err)
	answer, used := o.post(path, form)
	assert.Equal(t, http.StatusConflict, answer.Code)
	assert.Zero(t, used.WriteUnits())
	for _, part := range []string{"Somebody changed this meanwhile", "rpm: 600 a minute", "rpm: 700 a minute", "managed by terraform", "“terraform” keeps these limits"} {
		assert.Contains(t, answer.Body.String(), part)
	}
	again := secondForm(t, answer)
	for _, text := range []string{"Blocked.", "in force already"} {
		answer, _ = o.post(path, again)
		assert.Contains(t, answer.Body.String(), text)
	}
	c, err = o.Admin.Limits.GetConfig(ctx, at)
	require.NoError(t, err)
	assert.True(t, c.Blocked)
	assert.Len(t, c.Limits, 2)
}

// TestLostAnswerOfAChange: the form can be sent again, and grants once.
func TestLostAnswerOfAChange(t *testing.T) {
	o := changing(t)
	const path, id = "/entity/acme.search.ann/change/grant", "acme.search.ann"
	before := o.left(t, id, "usd")
	form := o.review(t, path, url.Values{"target": {"all usd"}, "amount": {"20"}})
	var silent atomic.Bool
	o.DB.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "TransactWriteItems" && !silent.Swap(true) {
			return ddbmem.Fault{Lose: true}
		}
		return ddbmem.Fault{Drop: silent.Load()}
	})
	answer, _ := o.post(path, form)
	assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
	assert.Contains(t, answer.Body.String(), "may have been made or not")
	o.DB.SetFaults(nil)
	assert.Equal(t, before+20_000_000, o.left(t, id, "usd"))
	answer, _ = o.post(path, secondForm(t, answer))
	assert.Contains(t, answer.Body.String(), "and is not repeated")
	assert.Equal(t, before+20_000_000, o.left(t, id, "usd"))
}

// TestBadValuesAreExplained: before anything is written, with the typed values.
func TestBadValuesAreExplained(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	o := newOffice(t, func(o *console.Options) { o.ReadUnits, o.Location = 1e6, berlin })
	o.access = console.Access{Principal: "mira", Change: true}
	for _, c := range []struct{ kind, target, amount, until, text string }{
		{"grant", "all usd", "-5", "", "not an amount of dollars"},
		{"grant", "all usd", "0", "", "not above 0"},
		{"grant", "all usd", "9000000000000", "", "too large"},
		{"grant", "all usd", "2,50", "", "separates no thousands"},
		{"grant", "all usd", "1,0000", "", "separates no thousands"},
		{"grant", "all usd", "1,000.5,0", "", "separates no thousands"},
		{"raise", "all rpm", "1,5", "2026-11-28T09:00", "separates no thousands"},
		{"grant", "all rpm", "5", "", "Choose one of the list"},
		{"grant", "all nothing", "5", "", "Choose one of the list"},
		{"raise", "all rpm", "100", "2026-11-28T09:00", "rpm is 120 already"},
		{"raise", "all rpm", "many", "2026-11-28T09:00", "not a whole number"},
		{"raise", "all rpm", "600", "tomorrow", "is not a time"},
		{"raise", "all rpm", "600", "2026-11-27T09:00", "the end is over"},
		{"raise", "all rpm", "600", "2027-03-28T02:30", "does not exist in Europe/Berlin"},
		{"raise", "all usd", "600", "2026-11-28T09:00", "Choose one of the list"},
	} {
		answer, used := o.post("/entity/acme.search.ann/change/"+c.kind, url.Values{"target": {c.target}, "amount": {c.amount}, "until": {c.until}, "reason": {`"><b>`}})
		assert.Equal(t, http.StatusUnprocessableEntity, answer.Code, c.text)
		text := html.UnescapeString(answer.Body.String())
		assert.Contains(t, text, c.text)
		assert.Contains(t, text, `value="`+c.amount+`"`)
		assert.Contains(t, answer.Body.String(), "&#34;&gt;&lt;b&gt;")
		assert.Zero(t, used.WriteUnits())
	}
	const path = "/entity/acme.search.ann/change/raise"
	for until, text := range map[string]string{"2027-11-28T09:00": "at most 90 days ahead", "2026-11-28T09:00": "reason"} {
		form := o.review(t, path, url.Values{"target": {"all rpm"}, "amount": {"600"}, "until": {until}, "reason": {strings.Repeat("x", 501)}})
		answer, used := o.post(path, form)
		assert.Equal(t, http.StatusUnprocessableEntity, answer.Code)
		assert.Contains(t, answer.Body.String(), text)
		assert.Zero(t, used.WriteUnits())
	}
	answer, _ := o.post(path, url.Values{"reason": {strings.Repeat("x", 70_000)}})
	assert.Equal(t, http.StatusBadRequest, answer.Code)
}

// TestRefillMakesLimitsFull: all limits of a bucket.
func TestRefillMakesLimitsFull(t *testing.T) {
	o := changing(t)
	const path, id = "/entity/acme.search/change/refill", "acme.search"
	require.NotEqual(t, dynalimit.Dollars(62.5), o.left(t, id, "usd"))
	answer, _ := o.post(path, o.review(t, path, url.Values{"target": {"all "}}))
	assert.Contains(t, answer.Body.String(), "Refilled.")
	assert.Equal(t, dynalimit.Dollars(62.5), o.left(t, id, "usd"))
}
