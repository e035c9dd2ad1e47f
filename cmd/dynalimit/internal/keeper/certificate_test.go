package keeper

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writeCertificate writes a certificate with a serial number, for 127.0.0.1.
func writeCertificate(t *testing.T, files TLS, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	require.NoError(t, os.WriteFile(files.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

func certificateFiles(t *testing.T) TLS {
	t.Helper()
	folder := t.TempDir()
	return TLS{Cert: filepath.Join(folder, "tls.crt"), Key: filepath.Join(folder, "tls.key")}
}

// TestCertificateIsReadAgain: what the files have is in use within a second, and what is
// no pair leaves the one before.
func TestCertificateIsReadAgain(t *testing.T) {
	files := certificateFiles(t)
	writeCertificate(t, files, 1)
	now := time.Date(2026, 1, 23, 15, 30, 45, 0, time.UTC)
	c, err := newCertificate(files, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	serial := func() int64 {
		got, err := c.get(nil)
		require.NoError(t, err)
		leaf, err := x509.ParseCertificate(got.Certificate[0])
		require.NoError(t, err)
		return leaf.SerialNumber.Int64()
	}
	require.EqualValues(t, 1, serial())

	writeCertificate(t, files, 2)
	assert.EqualValues(t, 1, serial(), "the files were looked at just now")
	now = now.Add(lookAgain)
	assert.EqualValues(t, 2, serial())

	key, err := os.ReadFile(files.Key)
	require.NoError(t, err)
	writeCertificate(t, files, 3)
	third, err := os.ReadFile(files.Key)
	require.NoError(t, err)
	for name, bad := range map[string][]byte{"the old key": key, "nothing": nil} {
		require.NoError(t, os.WriteFile(files.Key, bad, 0o600))
		now = now.Add(lookAgain)
		assert.EqualValues(t, 2, serial(), name)
	}
	require.NoError(t, os.WriteFile(files.Key, third, 0o600))
	now = now.Add(lookAgain)
	assert.EqualValues(t, 3, serial())
	assert.EqualValues(t, tls.VersionTLS12, c.config().MinVersion)
}
