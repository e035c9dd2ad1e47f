package leanddb

import (
	"crypto/sha256"
	"sync"
)

// workspace is the memory of one request, which the next one uses again.
type workspace struct {
	// body is the request, canonical the text that is signed, fields the values of the header, and
	// answer the answer's body.
	body, canonical, fields, answer []byte
}

// mostKept bounds the bytes of a workspace that is used again.
const mostKept = 64 << 10

// returnToPool puts the workspace into the pool for another request, unless body and answer have grown above 64
// KiB. The caller must not use it afterwards.
func (w *workspace) returnToPool() {
	if cap(w.body)+cap(w.answer) <= mostKept {
		workspaces.Put(w)
	}
}

var workspaces = sync.Pool{New: func() any {
	return &workspace{
		body: make([]byte, 0, 2048), canonical: make([]byte, 0, 1024),
		fields: make([]byte, 0, 512), answer: make([]byte, 0, 2048),
	}
}}

// blockSize is the size of a block of SHA-256.
const blockSize = sha256.BlockSize

// signer is a key of HMAC-SHA256, in the two forms that the sum needs.
type signer struct{ inner, outer [blockSize]byte }

// newSigner returns the signer of a key of HMAC-SHA256, with the padded forms of the key computed once. A key
// above 64 bytes counts by its hash.
func newSigner(key []byte) *signer {
	if len(key) > blockSize {
		sum := sha256.Sum256(key)
		key = sum[:]
	}
	s := &signer{}
	copy(s.inner[:], key)
	copy(s.outer[:], key)
	for i := range blockSize {
		s.inner[i] ^= 0x36
		s.outer[i] ^= 0x5c
	}
	return s
}

// sum returns the HMAC-SHA256 of a text.
func (s *signer) sum(text []byte) [sha256.Size]byte {
	b := append(append(make([]byte, 0, 4*blockSize), s.inner[:]...), text...)
	inner := sha256.Sum256(b)
	return sha256.Sum256(append(append(b[:0], s.outer[:]...), inner[:]...))
}

// signingKey is the key of one day, with what it was made of.
type signingKey struct {
	secret, day string
	signer      *signer
}

// deriveKey returns the key with which a secret signs requests of one day, region and service, by Signature
// Version 4. It is kept with secret and day.
func deriveKey(secret, day, region, service string) *signingKey {
	k := newSigner([]byte("AWS4" + secret))
	for _, part := range [...]string{day, region, service, "aws4_request"} {
		sum := k.sum([]byte(part))
		k = newSigner(sum[:])
	}
	return &signingKey{secret, day, k}
}
