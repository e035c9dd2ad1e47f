package credentials

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// sealInfo is the purpose of the keys that seal secrets.
const sealInfo = "dynalimit budget retrieval v1"

// tokenHash returns the hash in the key of a retrieval token's item, as hex text. Neither the token nor the key
// that seals its secret can be derived from it.
func tokenHash(token Secret) string {
	sum := sha256.Sum256([]byte(token.Reveal()))
	return hex.EncodeToString(sum[:])
}

// newSealer returns an AES-256-GCM cipher with a key derived from the token, and its nonce, derived too. The
// same token gives the same nonce, so a token must seal one text only.
func newSealer(token Secret) (cipher.AEAD, []byte, error) {
	const key, nonce = 32, 12
	material, err := hkdf.Key(sha256.New, []byte(token.Reveal()), nil, sealInfo, key+nonce)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(material[:key])
	if err != nil {
		return nil, nil, err
	}
	gcm, err := cipher.NewGCM(block)
	return gcm, material[key:], err
}

// sealContext returns the additional authenticated data of a sealed secret: organisation, app and revision,
// separated by NUL.
func sealContext(org, app string, revision int64) []byte {
	return []byte(strings.Join([]string{org, app, strconv.FormatInt(revision, 10)}, "\x00"))
}

// sealSecret returns the secret encrypted under a retrieval token. openSealed decrypts it only with the same
// token, organisation, app and revision.
func sealSecret(token, secret Secret, org, app string, revision int64) ([]byte, error) {
	gcm, nonce, err := newSealer(token)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(nil, nonce, []byte(secret.Reveal()), sealContext(org, app, revision)), nil
}

// openSealed decrypts a sealed secret with its retrieval token. It returns an error unless token, organisation,
// app and revision are those of sealSecret and the bytes are intact.
func openSealed(token Secret, sealed []byte, org, app string, revision int64) (Secret, error) {
	gcm, nonce, err := newSealer(token)
	if err != nil {
		return Secret{}, err
	}
	text, err := gcm.Open(nil, nonce, sealed, sealContext(org, app, revision))
	if err != nil {
		return Secret{}, fmt.Errorf("%s: the sealed secret is not intact: %w", pkg, err)
	}
	return NewSecret(string(text)), nil
}
