package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// tokenTime is the validity of a form token.
const tokenTime = 10 * time.Minute

// identity is the part of a proposal that its confirmation must repeat: the table, the visitor, the change.
type identity struct{ Table, Namespace, Principal, Under, Session, Kind, Entity string }

// proposal is a change that a visitor has seen as a diff and may confirm. A form token is its signed JSON.
type proposal struct {
	identity
	Resource, Limit, Reason string
	// Amount is in whole tokens or micro-dollars.
	Amount int64
	Until  time.Time
	// Version is that of the source, for changes of configuration, and Seen are its settings at that version.
	Version int64
	Seen    []string
	// Operation is the id of a grant or refill, which is carried out once however often it is confirmed.
	Operation string
	// Lines is the diff.
	Lines   []diff
	Expires time.Time
}

// signProposal returns the form token of a proposal: its JSON and a signature with the key, in base64. Visitors
// can read the token but not change it.
func signProposal(key []byte, p proposal) (string, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode(text) + "." + encode(signatureOf(key, text)), nil
}

// openToken returns the proposal of a form token. It returns false for a malformed token, a bad signature, and
// after the token's end.
func openToken(key []byte, token string, now time.Time) (p proposal, ok bool) {
	first, second, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return p, false
	}
	signature, err := base64.RawURLEncoding.DecodeString(second)
	if err != nil || !hmac.Equal(signature, signatureOf(key, text)) {
		return p, false
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return proposal{}, false
	}
	return p, now.Before(p.Expires)
}

// signatureOf returns the HMAC-SHA256 of a proposal's text. Its prefix keeps other texts under the same key
// from having this signature.
func signatureOf(key, text []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("dynalimit console change\x00"))
	mac.Write(text)
	return mac.Sum(nil)
}
