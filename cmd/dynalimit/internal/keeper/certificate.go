package keeper

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// lookAgain is how often the files of a certificate are looked at, at most.
const lookAgain = time.Second

// certificate is the one that two files have. Handshakes look whether they changed, so
// that a renewed one is in use within lookAgain; a pair that is not good leaves the one
// before in use.
type certificate struct {
	files  TLS
	now    func() time.Time
	logger *slog.Logger
	next   atomic.Int64 // when the files are looked at again, in nanoseconds
	read   atomic.Pointer[pair]
}

// pair is what the files had, and the certificate in use.
type pair struct {
	cert, key []byte
	inUse     *tls.Certificate
}

func newCertificate(files TLS, now func() time.Time, logger *slog.Logger) (*certificate, error) {
	c := &certificate{files: files, now: now, logger: logger}
	cert, key, err := c.load()
	if err != nil {
		return nil, err
	}
	parsed, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s are no certificate with its key: %w; give files that belong together with --tls-cert and --tls-key", files.Cert, files.Key, err)
	}
	c.read.Store(&pair{cert, key, &parsed})
	c.next.Store(now().Add(lookAgain).UnixNano())
	return c, nil
}

func (c *certificate) load() (cert, key []byte, err error) {
	if cert, err = os.ReadFile(c.files.Cert); err != nil {
		return nil, nil, fmt.Errorf("the certificate cannot be read: %w; correct --tls-cert", err)
	}
	if key, err = os.ReadFile(c.files.Key); err != nil {
		return nil, nil, fmt.Errorf("the certificate's key cannot be read: %w; correct --tls-key", err)
	}
	return cert, key, nil
}

// config is that of a listener.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: c.get}
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	now, due := c.now(), c.next.Load()
	if now.UnixNano() >= due && c.next.CompareAndSwap(due, now.Add(lookAgain).UnixNano()) {
		c.look()
	}
	return c.read.Load().inUse, nil
}

// look takes what the files have, if that is new and good.
func (c *certificate) look() {
	old := c.read.Load()
	cert, key, err := c.load()
	if err != nil {
		c.logger.Error("keeper: the certificate in use stays", "error", err)
		return
	}
	if bytes.Equal(cert, old.cert) && bytes.Equal(key, old.key) {
		return
	}
	parsed, err := tls.X509KeyPair(cert, key)
	if err != nil { // perhaps one file was replaced, and the other will be
		c.logger.Error("keeper: the certificate in use stays", "error", err)
		return
	}
	c.read.Store(&pair{cert, key, &parsed})
	c.logger.Info("keeper: a new certificate is in use")
}
