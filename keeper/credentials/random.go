package credentials

import (
	"crypto/rand"
	"fmt"
	"io"
)

// secretBytes is how much chance is in everything that is secret.
const secretBytes = 32

// What texts that are secret begin with, so that people and scanners recognise them.
const (
	secretPrefix    = "dls_" // a client's secret
	retrievalPrefix = "dlr_" // a retrieval token
	keyPrefix       = "dlk_" // a provisioning key
)

// draw takes 256 bits of chance; nil takes crypto/rand.
func draw(random io.Reader) ([]byte, error) {
	if random == nil {
		random = rand.Reader
	}
	b := make([]byte, secretBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		return nil, fmt.Errorf("%s: no randomness: %w", pkg, err)
	}
	return b, nil
}
