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

// sealInfo says what the key of a sealed secret is for.
const sealInfo = "dynalimit budget retrieval v1"

// tokenHash is where a token's item lies: from it nobody gets to the token, nor to the key
// of what is sealed.
func tokenHash(token Secret) string {
	sum := sha256.Sum256([]byte(token.Reveal()))
	return hex.EncodeToString(sum[:])
}

// sealer is AES-256-GCM under a key that only the token gives, and its nonce. Both are of
// this token alone, which seals one text: so no nonce is ever used twice under a key.
func sealer(token Secret) (cipher.AEAD, []byte, error) {
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

// place is what a sealed secret is bound to: whose it is, and which.
func place(org, app string, revision int64) []byte {
	return []byte(strings.Join([]string{org, app, strconv.FormatInt(revision, 10)}, "\x00"))
}

// seal encrypts a secret so that the token opens it.
func seal(token, secret Secret, org, app string, revision int64) ([]byte, error) {
	gcm, nonce, err := sealer(token)
	if err != nil {
		return nil, err
	}
	return gcm.Seal(nil, nonce, []byte(secret.Reveal()), place(org, app, revision)), nil
}

// open decrypts what was sealed for this place.
func open(token Secret, sealed []byte, org, app string, revision int64) (Secret, error) {
	gcm, nonce, err := sealer(token)
	if err != nil {
		return Secret{}, err
	}
	text, err := gcm.Open(nil, nonce, sealed, place(org, app, revision))
	if err != nil {
		return Secret{}, fmt.Errorf("%s: what is sealed is not what was: %w", pkg, err)
	}
	return NewSecret(string(text)), nil
}
