package credentials

import (
	"crypto/rand"
	"fmt"
	"io"
)

// secretBytes is the number of random bytes in every secret.
const secretBytes = 32

// Prefixes of secret texts, by which people and scanners recognise them.
const (
	secretPrefix    = "dls_" // a client's secret
	retrievalPrefix = "dlr_" // a retrieval token
	keyPrefix       = "dlk_" // a provisioning key
)

// randomBytes returns 32 bytes from random, or from crypto/rand if random is nil. It returns an error if the
// source ends or fails before.
func randomBytes(random io.Reader) ([]byte, error) {
	if random == nil {
		random = rand.Reader
	}
	b := make([]byte, secretBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		return nil, fmt.Errorf("%s: no randomness: %w", pkg, err)
	}
	return b, nil
}
