// Package mark carries the error of a refused call in the text of its answer: SDKs keep that text and
// hide the rest. A key of the process seals a mark, because the client of a gateway gets the text too,
// and must not read the names of teams and organisations.
package mark

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

// start begins each mark.
const start = "dynalimit-"

// seal encrypts marks. Its key lives as long as the process.
var seal = newSeal()

// newSeal returns an AES-GCM cipher with a new random key, which draws a random nonce for each mark.
func newSeal() cipher.AEAD {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // of the length of the key
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return gcm
}

// kind is the type of the error in a mark.
type kind int

const (
	ofLimit kind = iota + 1
	ofPause
	ofBlock
	ofBudget
	ofOutage
)

// content is the sealed part of a mark.
type content struct {
	Kind    kind
	Wait    time.Duration // of the *llm.DeniedError around it
	Details []byte        // of the error: DER, which has no names of fields and is short; JSON of a budget's
}

// outage is a *dynalimit.UnavailableError with its cause as a text.
type outage struct {
	Package, Op, Cause string
	Unconfirmed        bool
	RetryAfter         time.Duration
}

// maxCause is how many bytes of the cause of an outage a mark has.
const maxCause = 160

// Encode returns the mark of an error with which a call was refused: a text with its type and details,
// encrypted with the process's key. It is empty for errors other than denials, pauses, blocks, spent budgets
// and outages.
func Encode(refused error) string {
	var m content
	err := m.describe(refused)
	if err != nil || m.Kind == 0 {
		return ""
	}
	plain, err := asn1.Marshal(m)
	if err != nil {
		return ""
	}
	return start + base64.RawURLEncoding.EncodeToString(seal.Seal(nil, nil, plain, nil))
}

// describe stores the type, wait and encoded details of an error in m. It leaves m.Kind at 0 for an error
// without a mark. It fails if the details cannot be encoded.
func (m *content) describe(refused error) (err error) {
	if denial, ok := errors.AsType[*llm.DeniedError](refused); ok {
		m.Wait = denial.RetryAfter
	}
	der := func(of kind, details any) {
		m.Kind = of
		m.Details, err = asn1.Marshal(details)
	}
	if e, ok := errors.AsType[*dynalimit.LimitExceededError](refused); ok {
		der(ofLimit, onlyExceeded(*e))
	} else if e, ok := errors.AsType[*dynalimit.PausedError](refused); ok {
		der(ofPause, *e)
	} else if e, ok := errors.AsType[*dynalimit.BlockedError](refused); ok {
		der(ofBlock, *e)
	} else if e, ok := errors.AsType[*prices.QuotaExceededError](refused); ok {
		m.Kind = ofBudget
		m.Details, err = json.Marshal(e)
	} else if e, ok := errors.AsType[*dynalimit.UnavailableError](refused); ok {
		der(ofOutage, outage{e.Package, e.Op, causeOf(e), e.Unconfirmed, e.RetryAfter})
	}
	return err
}

// onlyExceeded returns a copy of e with only the statuses that deny, because the others would make the message
// long.
func onlyExceeded(e dynalimit.LimitExceededError) dynalimit.LimitExceededError {
	all := e.Statuses
	e.Statuses = nil
	for i := range all {
		if all[i].Exceeded {
			e.Statuses = append(e.Statuses, all[i])
		}
	}
	return e
}

// causeOf returns the text of the cause of an outage, cut after 160 bytes, and "" without a cause.
func causeOf(e *dynalimit.UnavailableError) string {
	if e.Err == nil {
		return ""
	}
	cause := e.Err.Error()
	return strings.ToValidUTF8(cause[:min(len(cause), maxCause)], "")
}

// Find returns the error of the first mark of this process in a text, decrypted, and nil without one. A denial
// is a *llm.DeniedError; a limit's has only its denying statuses.
func Find(text string) error {
	for {
		_, rest, ok := strings.Cut(text, start)
		if !ok {
			return nil
		}
		end := strings.IndexFunc(rest, notBase64)
		if end < 0 {
			end = len(rest)
		}
		if err := openSealed(rest[:end]); err != nil {
			return err
		}
		text = rest
	}
}

// notBase64 reports whether r cannot be part of a mark's base64 text, so that the mark ends before it.
func notBase64(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// openSealed decrypts a mark's base64 text and returns its error, in a *llm.DeniedError unless it is an outage.
// It is nil for a mark of another process, and for any other text.
func openSealed(text string) error {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil //nolint:nilerr // not a mark
	}
	plain, err := seal.Open(nil, nil, sealed, nil)
	if err != nil {
		return nil //nolint:nilerr // of this process
	}
	var m content
	if _, err := asn1.Unmarshal(plain, &m); err != nil {
		return nil //nolint:nilerr // nobody else has the key
	}
	refused := m.rebuildError()
	if m.Kind == ofOutage || refused == nil {
		return refused
	}
	return &llm.DeniedError{RetryAfter: m.Wait, Err: refused}
}

// rebuildError rebuilds the error that describe stored, nil if its details cannot be read.
func (m *content) rebuildError() error {
	switch m.Kind {
	case ofLimit:
		return decodeDER(m.Details, &dynalimit.LimitExceededError{})
	case ofPause:
		return decodeDER(m.Details, &dynalimit.PausedError{})
	case ofBlock:
		return decodeDER(m.Details, &dynalimit.BlockedError{})
	case ofBudget:
		e := &prices.QuotaExceededError{}
		if json.Unmarshal(m.Details, e) == nil {
			return e
		}
	case ofOutage:
		var o outage
		if _, err := asn1.Unmarshal(m.Details, &o); err == nil {
			return &dynalimit.UnavailableError{Package: o.Package, Op: o.Op, Err: errors.New(o.Cause), Unconfirmed: o.Unconfirmed, RetryAfter: o.RetryAfter}
		}
	}
	return nil
}

// decodeDER decodes DER into the error into and returns it, or nil if that fails.
func decodeDER(der []byte, into error) error {
	if _, err := asn1.Unmarshal(der, into); err != nil {
		return nil //nolint:nilerr // nobody else has the key
	}
	return into
}
