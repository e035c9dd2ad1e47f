package pricefeed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

// liteLLM is the URL of LiteLLM's price list.
const liteLLM = "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json"

// ErrNotModified means that a Source's list still has the given tag.
var ErrNotModified = errors.New("pricefeed: not modified")

// Source is the origin of a price list, such as a URL or a File.
type Source interface {
	// Open returns the list's JSON, which the caller closes, and a tag of its version, or "".
	// Given the tag of the last version, it may fail with ErrNotModified. The caller bounds the
	// size.
	Open(ctx context.Context, tag string) (body io.ReadCloser, newTag string, err error)
}

// maxRedirects is the maximal number of redirects.
const maxRedirects = 3

// URL is a list on an HTTP server.
type URL struct {
	// Address is the list's URL: https, or http if the header contains no credentials. Defaults
	// to LiteLLM's list.
	Address string
	// Header is added to the request, for example Authorization. It is not sent to another host
	// after a redirect. Defaults to nil.
	Header http.Header
	// Transport sends the requests. Defaults to http.DefaultTransport.
	Transport http.RoundTripper
	// Timeout bounds a request including the reading of the response. Defaults to 30 s.
	Timeout time.Duration
}

// Open requests the list with If-None-Match and returns its body, which the caller closes, and its ETag. It follows at
// most three redirects, and none to another scheme.
//
// Errors: ErrNotModified, any status other than 200, and errors of the network.
func (u URL) Open(ctx context.Context, tag string) (io.ReadCloser, string, error) {
	u.Address = cmp.Or(u.Address, liteLLM)
	address, err := url.Parse(u.Address)
	if err != nil || address.Scheme != "https" && address.Scheme != "http" || address.Host == "" {
		return nil, "", fmt.Errorf("pricefeed: the address is no URL of http or https: write it like %s", liteLLM)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.Address, nil)
	if err != nil {
		return nil, "", fmt.Errorf("pricefeed: %s: %w", redactAddress(address), err)
	}
	for name, values := range u.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	request.Header.Set("Accept", "application/json")
	if tag != "" {
		request.Header.Set("If-None-Match", tag)
	}
	return requestList(&http.Client{Transport: u.Transport, Timeout: cmp.Or(u.Timeout, defaultTimeout), CheckRedirect: checkRedirect}, request, tag)
}

// defaultTimeout is the default of URL.Timeout.
const defaultTimeout = 30 * time.Second

// requestList sends the request and returns the body of a 200, which the caller closes, and its ETag. A 304 for
// a tag that is not empty is ErrNotModified. Any other answer is an error without the secret parts of the
// address.
func requestList(client *http.Client, request *http.Request, tag string) (io.ReadCloser, string, error) {
	answer, err := client.Do(request)
	if err != nil {
		return nil, "", withoutAddress(request.URL, err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, answer.Header.Get("ETag"), nil
	}
	err = answer.Body.Close()
	if answer.StatusCode == http.StatusNotModified && tag != "" {
		return nil, tag, errors.Join(ErrNotModified, err)
	}
	return nil, "", errors.Join(fmt.Errorf("pricefeed: %s answered %d %s", redactAddress(request.URL), answer.StatusCode, http.StatusText(answer.StatusCode)), err)
}

// checkRedirect returns an error for more than maxRedirects redirects and for one to another scheme. For
// another host than the first it removes all headers of request but Accept, in place.
func checkRedirect(request *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case request.URL.Scheme != via[0].URL.Scheme:
		return fmt.Errorf("redirected from %s to %s", via[0].URL.Scheme, request.URL.Scheme)
	}
	if request.URL.Host != via[0].URL.Host {
		request.Header = http.Header{"Accept": request.Header["Accept"]}
	}
	return nil
}

// redactAddress returns the scheme, host and path of an address, without its user, query and fragment, which
// may be secret.
func redactAddress(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// withoutAddress returns err, an error of net/http, with the address u in place of its own. User, query and
// fragment are left out, because they may be secret.
func withoutAddress(u *url.URL, err error) error {
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err
	}
	return fmt.Errorf("pricefeed: %s: %w", redactAddress(u), err)
}

// File is the path of a list.
type File string

// Open opens the file, for the caller to close, and returns a tag made from its size and modification time. If
// that equals tag, it returns ErrNotModified. Anything but a regular file is an error.
func (f File) Open(_ context.Context, tag string) (io.ReadCloser, string, error) {
	info, err := os.Stat(string(f))
	if err == nil && !info.Mode().IsRegular() { // opening another kind may block for ever
		err = fmt.Errorf("%s is no regular file", f)
	}
	if err != nil {
		return nil, "", fmt.Errorf("pricefeed: %w", err)
	}
	now := fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
	if now == tag {
		return nil, tag, ErrNotModified
	}
	file, err := os.Open(string(f))
	if err != nil {
		return nil, "", fmt.Errorf("pricefeed: %w", err)
	}
	return file, now, nil
}
