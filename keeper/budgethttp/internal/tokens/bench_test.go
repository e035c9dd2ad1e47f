package tokens

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// BenchmarkParse reads a token that was read before, and one that was not: that is
// genuine each time, and signed by a key that is there.
func BenchmarkParse(b *testing.B) {
	keys, err := credentials.NewKeySet(nil, now)
	require.NoError(b, err)
	codec, err := New(Options{Keys: keys, Issuer: issuer, Audience: audience, Now: now.Local})
	require.NoError(b, err)
	text, err := codec.Sign(claims())
	require.NoError(b, err)
	for name, parse := range map[string]func(credentials.Secret) (Claims, error){"known": codec.Parse, "unknown": codec.ParseLate} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parse(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
