package alert

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Format is the body of a webhook's requests.
type Format string

const (
	// FormatJSON is a JSON object with the text and all fields of the alerts.
	FormatJSON Format = "json"
	// FormatSlack is a JSON object with the text alone, as Slack's incoming webhooks want it.
	FormatSlack Format = "slack"
)

// WebhookOptions configures a Webhook. The zero value gives the defaults that the fields name.
type WebhookOptions struct {
	// Format is the body. Defaults to FormatJSON.
	Format Format
	// Secrets sign the requests as Standard Webhooks say (HMAC-SHA256): each in base64, with or without the prefix
	// whsec_, of 24 to 64 bytes. Give two while you replace one. Defaults to no signature.
	Secrets []string
	// AllowPrivate lets the address be in a private network. Without it a webhook connects only to public addresses,
	// also after the resolution of its host name. A loopback host in the address itself is allowed. A proxy of the
	// environment decides for itself. Defaults to false.
	AllowPrivate bool
	// Transport makes the requests, and AllowPrivate does not count. Defaults to one like http.DefaultTransport.
	Transport http.RoundTripper
	// Now is the clock of signatures. Defaults to time.Now.
	Now func() time.Time
}

// Webhook is a Sink that posts messages to an address. The address is a secret: errors show its host and its last four
// letters. It follows no redirect, and reads at most 4 KB of an answer.
type Webhook struct {
	address string
	shown   string
	format  Format
	secrets [][]byte
	client  *http.Client
	now     func() time.Time
}

const (
	mostRead = 4 << 10
	// longestPause bounds the pause that a receiver may ask for.
	longestPause = time.Hour
)

// NewWebhook returns a Webhook with an address of https, or of http on a loopback host. It fails with a
// *fault.ValidationError, which does not show the address.
func NewWebhook(address string, opts *WebhookOptions) (*Webhook, error) {
	o := WebhookOptions{}
	if opts != nil {
		o = *opts
	}
	u, err := url.Parse(strings.TrimSpace(address))
	switch {
	case err != nil || u.Host == "":
		return nil, invalid("address", "is no address of the web; give one such as https://hooks.example.com/…")
	case u.Scheme != "https" && !(u.Scheme == "http" && isLoopback(u.Hostname())):
		return nil, invalid("address", "on %s is not of https; give one of https, or of http on a loopback host", u.Hostname())
	case o.Format != "" && o.Format != FormatJSON && o.Format != FormatSlack:
		return nil, invalid("options.Format", "is %q; give %q or %q", o.Format, FormatJSON, FormatSlack)
	}
	w := &Webhook{address: u.String(), shown: u.Host + "/…" + lastOf(u.String(), 4), format: o.Format, now: o.Now}
	for i, text := range o.Secrets {
		secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(text), "whsec_"))
		if err != nil || len(secret) < 24 || len(secret) > 64 {
			return nil, invalid(fmt.Sprintf("options.Secrets[%d]", i), "is no secret of 24 to 64 bytes in base64; make one with: echo whsec_$(openssl rand -base64 32)")
		}
		w.secrets = append(w.secrets, secret)
	}
	if w.now == nil {
		w.now = time.Now
	}
	if o.Transport == nil {
		o.Transport = newTransport(u, o.AllowPrivate)
	}
	w.client = &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return w, nil
}

// isLoopback reports whether a host is localhost or a loopback address.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// newTransport returns the transport of a webhook. It connects to public addresses alone, unless private ones are
// allowed, the address names a loopback host, or a proxy of the environment connects.
func newTransport(u *url.URL, private bool) http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if proxy, _ := http.ProxyFromEnvironment(&http.Request{URL: u}); proxy == nil && !private && !isLoopback(u.Hostname()) {
		t.DialContext = (&net.Dialer{Timeout: sendTimeout, Control: refusePrivate}).DialContext
	}
	return t
}

var (
	// notPublic are further networks that are not of the internet. Some clouds have their metadata in the first two.
	notPublic = []netip.Prefix{
		netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("64:ff9b:1::/48"),
	}
	// translated is the network of IPv6 addresses with one of IPv4 at their end. A gateway connects to that (RFC 6052).
	translated = netip.MustParsePrefix("64:ff9b::/96")
)

// refusePrivate returns an error if address, the resolved IP address and port of a dial, is not public. An IPv4
// address within 64:ff9b::/96 counts as itself. It is the Control of a net.Dialer.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap().WithZone("") // no prefix contains an address with a zone
	if translated.Contains(ip) {
		ip, _ = netip.AddrFromSlice(ip.AsSlice()[12:]) // of four bytes
	}
	if ip.IsPrivate() || !ip.IsGlobalUnicast() || slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return fmt.Errorf("%s is not a public address; allow private ones if the receiver is in your network", ip)
	}
	return nil
}

// lastOf returns the last n bytes of a text.
func lastOf(text string, n int) string { return text[max(0, len(text)-n):] }

// String shows the host and the last four letters of the address.
func (w *Webhook) String() string { return w.shown }

// Send posts a message, signed if the webhook has secrets, and returns nil for a status of 2xx. It returns an
// error that wraps ErrGone for 404 and 410. Any other error has the wait that Retry-After demands, at most an
// hour.
func (w *Webhook) Send(ctx context.Context, m Message) error {
	body, err := w.encodeMessage(m)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.address, bytes.NewReader(body))
	if err != nil {
		return w.hideAddress(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "dynalimit")
	if len(w.secrets) > 0 {
		at := strconv.FormatInt(w.now().Unix(), 10)
		req.Header.Set("Webhook-Id", m.ID)
		req.Header.Set("Webhook-Timestamp", at)
		req.Header.Set("Webhook-Signature", w.signBody(m.ID, at, body))
	}
	res, err := w.client.Do(req)
	if err != nil {
		return w.hideAddress(err)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, mostRead) // so that the connection can be used again
	switch {
	case res.StatusCode/100 == 2:
		return nil
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone:
		return fmt.Errorf("alert: %s answered %d: %w", w.shown, res.StatusCode, ErrGone)
	}
	err = fmt.Errorf("alert: %s answered %d", w.shown, res.StatusCode)
	if wait := w.waitOf(res.Header.Get("Retry-After")); wait > 0 {
		return &retryAfter{err, min(wait, longestPause)}
	}
	return err
}

// waitOf returns the wait in the header Retry-After: seconds, cut to an hour, or the time until an HTTP date.
// It is 0 or less without a wait.
func (w *Webhook) waitOf(header string) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil {
		return time.Duration(min(seconds, 3600)) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return at.Sub(w.now())
	}
	return 0
}

// hideAddress returns the error of a request without the secret address: with the shown form of the address,
// and only the cause of a *url.Error.
func (w *Webhook) hideAddress(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	return fmt.Errorf("alert: post to %s: %w", w.shown, err)
}

// signBody returns the header Webhook-Signature: for each secret an HMAC-SHA256 of the message's id, the Unix
// time at in seconds, and the body. The signatures are in base64, each after "v1,", separated by spaces.
func (w *Webhook) signBody(id, at string, body []byte) string {
	var all []string
	for _, secret := range w.secrets {
		h := hmac.New(sha256.New, secret)
		_, _ = fmt.Fprintf(h, "%s.%s.%s", id, at, body) // never fails
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)))
	}
	return strings.Join(all, " ")
}

// encodeMessage returns the JSON body of a request for a message, in the webhook's format.
func (w *Webhook) encodeMessage(m Message) ([]byte, error) {
	if w.format == FormatSlack {
		return json.Marshal(struct {
			Text string `json:"text"`
		}{Text(m)})
	}
	return json.Marshal(jsonOf(m))
}
