package keeper

import (
	"crypto/tls"
	"fmt"
	"os"
)

// tlsConfig reads the files of the certificate and its key once, and returns a TLS configuration with both, for
// TLS 1.2 or later. Unreadable files, and a key of another certificate, are errors.
func (t TLS) tlsConfig() (*tls.Config, error) {
	cert, err := os.ReadFile(t.Cert)
	if err != nil {
		return nil, fmt.Errorf("the certificate cannot be read: %w; correct --tls-cert", err)
	}
	key, err := os.ReadFile(t.Key)
	if err != nil {
		return nil, fmt.Errorf("the certificate's key cannot be read: %w; correct --tls-key", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s are no certificate with its key: %w; give files that belong together with --tls-cert and --tls-key", t.Cert, t.Key, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{pair}}, nil
}
