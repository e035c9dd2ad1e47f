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

// liteLLM is the list of LiteLLM.
const liteLLM = "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json"

// ErrNotModified is returned by a Source whose list is still the one with the tag that it
// was given.
var ErrNotModified = errors.New("pricefeed: not modified")

// Source has a price list: a URL, a File, or anything else with this method.
type Source interface {
	// Open returns the list's JSON, which the caller closes, and a tag of this version of
	// it, "" for none. Given the tag of the last version it may fail with ErrNotModified.
	// How much is read is bounded by who reads.
	Open(ctx context.Context, tag string) (body io.ReadCloser, newTag string, err error)
}

// maxRedirects bounds how often a URL may lead elsewhere.
const maxRedirects = 3

// URL is a list that a server of HTTP has.
type URL struct {
	// Address is its URL, of https, or of http where no credentials are in its header.
	// Defaults to the list of LiteLLM.
	Address string
	// Header is sent besides, for example Authorization. It is not sent on to another
	// host. Defaults to nothing.
	Header http.Header
	// Transport sends the requests. Defaults to http.DefaultTransport.
	Transport http.RoundTripper
	// Timeout bounds a request with the reading of its answer. Defaults to 30 s.
	Timeout time.Duration
}

// Open asks for the list with If-None-Match, and follows three redirects at most: none to
// another scheme.
//
// Errors: ErrNotModified, what the server answered, and what the network says.
func (u URL) Open(ctx context.Context, tag string) (io.ReadCloser, string, error) {
	u.Address = cmp.Or(u.Address, liteLLM)
	address, err := url.Parse(u.Address)
	if err != nil || address.Scheme != "https" && address.Scheme != "http" || address.Host == "" {
		return nil, "", fmt.Errorf("pricefeed: the address is no URL of http or https: write it like %s", liteLLM)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.Address, nil)
	if err != nil {
		return nil, "", fmt.Errorf("pricefeed: %s: %w", shown(address), err)
	}
	for name, values := range u.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	request.Header.Set("Accept", "application/json")
	if tag != "" {
		request.Header.Set("If-None-Match", tag)
	}
	return ask(&http.Client{Transport: u.Transport, Timeout: cmp.Or(u.Timeout, defaultTimeout), CheckRedirect: follow}, request, tag)
}

// defaultTimeout bounds a request where no Timeout is given.
const defaultTimeout = 30 * time.Second

// ask sends a request for a list that may be the one with the tag.
func ask(client *http.Client, request *http.Request, tag string) (io.ReadCloser, string, error) {
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
	return nil, "", errors.Join(fmt.Errorf("pricefeed: %s answered %d %s", shown(request.URL), answer.StatusCode, http.StatusText(answer.StatusCode)), err)
}

// follow refuses redirects that are too many or lead to another scheme.
func follow(request *http.Request, via []*http.Request) error {
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

// shown is an address without what may be secret in it.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// withoutAddress is what went wrong; net/http names the whole address in it.
func withoutAddress(u *url.URL, err error) error {
	if bad, ok := errors.AsType[*url.Error](err); ok {
		err = bad.Err
	}
	return fmt.Errorf("pricefeed: %s: %w", shown(u), err)
}

// File is a list in a file.
type File string

// Open opens the file. Its tag is its size and when it was changed.
func (f File) Open(_ context.Context, tag string) (io.ReadCloser, string, error) {
	info, err := os.Stat(string(f))
	if err == nil && !info.Mode().IsRegular() { // to open another may wait for ever
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
