package credentials

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A hash fits its own secret, for its own owner and purpose, under its own pepper.
func TestHashFitsItsOwnerAlone(t *testing.T) {
	keys, err := NewKeySet(chance(1), fixtureNow)
	require.NoError(t, err)
	rotated, err := keys.Rotated(chance(2), fixtureNow.Add(1), 0)
	require.Error(t, err, "two keys of one second have one name")
	require.Nil(t, rotated)
	other, err := NewKeySet(chance(3), fixtureNow)
	require.NoError(t, err)
	secret := NewSecret("dls_secret")
	hash := keys.Pepper(fixtureNow).hashSecret(purposeClient, "org-a", secret)
	assert.Regexp(t, `^v1:20990123T153045:[0-9a-f]{64}$`, hash)
	assert.NotContains(t, hash, "secret")
	for name, tc := range map[string]struct {
		peppers        []Pepper
		purpose, owner string
		secret         Secret
		hash           string
		fits, known    bool
	}{
		"itself":                    {keys.peppers, purposeClient, "org-a", secret, hash, true, true},
		"another owner":             {keys.peppers, purposeClient, "org-b", secret, hash, false, true},
		"another purpose":           {keys.peppers, purposeKey, "org-a", secret, hash, false, true},
		"another secret":            {keys.peppers, purposeClient, "org-a", NewSecret("dls_secres"), hash, false, true},
		"parts that are moved":      {keys.peppers, purposeClient, "org-", NewSecret("adls_secret"), hash, false, true},
		"a pepper of the same name": {other.peppers, purposeClient, "org-a", secret, hash, false, true},
		"an unknown pepper":         {keys.peppers, purposeClient, "org-a", secret, strings.Replace(hash, "2099", "2098", 1), false, false},
		"another system's":          {keys.peppers, purposeClient, "org-a", secret, "$2b$12$x", false, false},
		"a hash cut short":          {keys.peppers, purposeClient, "org-a", secret, hash[:len(hash)-2], false, true},
		"no hash":                   {keys.peppers, purposeClient, "org-a", secret, "", false, false},
		"a sum of zeros":            {nil, purposeClient, "org-a", secret, "v1:p:" + strings.Repeat("00", 32), false, false},
	} {
		fits, known := newAttempt(tc.peppers, tc.purpose, tc.owner, tc.secret).matches(tc.hash)
		assert.Equal(t, [2]bool{tc.fits, tc.known}, [2]bool{fits, known}, name)
	}
}
