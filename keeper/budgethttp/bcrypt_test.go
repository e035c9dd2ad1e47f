package budgethttp

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

func TestBcryptHashes(t *testing.T) {
	// A vector of the algorithm's own tests: "U*U", cost 5.
	const vector = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	for _, version := range []string{"$2a$", "$2b$", "$2y$"} {
		hash := credentials.NewSecret(version + vector[4:])
		assert.True(t, VerifyBcrypt(hash, credentials.NewSecret("U*U")), version)
		assert.False(t, VerifyBcrypt(hash, credentials.NewSecret("U*V")), version)
	}
	for _, hash := range []string{"", "x", vector[:59], "$1$05$" + vector[6:], "$2b$31" + vector[6:], strings.Repeat("x", 60)} {
		assert.False(t, VerifyBcrypt(credentials.NewSecret(hash), credentials.NewSecret("U*U")), hash)
	}
}

// A hash of another system logs its client in, and is the store's own from then on.
func TestImportedHashIsReplacedAtItsFirstLogin(t *testing.T) {
	db := ddbmem.New()
	defer db.Close()
	inputs, err := budget.Tables{Control: "control", Usage: "usage"}.TableInputs()
	require.NoError(t, err)
	_, err = db.Client().CreateTable(t.Context(), inputs[0])
	require.NoError(t, err)
	keys, err := credentials.NewKeySet(nil, time.Now())
	require.NoError(t, err)
	var asked []string
	verify := func(hash, secret credentials.Secret) bool {
		asked = append(asked, hash.Reveal()[:6])
		return VerifyBcrypt(hash, secret)
	}
	decoy, err := bcrypt.GenerateFromPassword([]byte("nobody"), 5)
	require.NoError(t, err)
	store, err := credentials.New(db.Client(), "control", &credentials.Options{
		Keys: keys, ImportedHash: verify, ImportedDecoy: credentials.NewSecret(string(decoy)), AllowAnonymous: true, Timeout: 20 * time.Second,
	})
	require.NoError(t, err)
	secret := credentials.NewSecret("another system's secret")
	hash, err := bcrypt.GenerateFromPassword([]byte(secret.Reveal()), 4)
	require.NoError(t, err)
	require.NoError(t, store.Import(t.Context(), orgO, appA, credentials.NewSecret(string(hash))))
	require.ErrorIs(t, store.Import(t.Context(), orgO, appA, credentials.NewSecret(string(hash))), credentials.ErrConflict)
	id := credentials.ClientID(orgO, appA)

	_, err = store.Verify(t.Context(), id, credentials.NewSecret("wrong"))
	require.ErrorIs(t, err, credentials.ErrInvalidCredentials)
	_, err = store.Verify(t.Context(), id, secret)
	require.NoError(t, err)
	assert.Equal(t, []string{"$2a$04", "$2a$04"}, asked)
	_, err = store.Verify(t.Context(), id, secret)
	require.NoError(t, err)
	assert.Len(t, asked, 2, "it is the store's own now")
	out, err := db.Client().Scan(t.Context(), &dynamodb.ScanInput{TableName: inputs[0].TableName})
	require.NoError(t, err)
	for _, item := range out.Items {
		if v, ok := item["client_secret_hash"].(*types.AttributeValueMemberS); ok {
			assert.Regexp(t, "^v1:", v.Value)
		}
	}
	_, err = store.Verify(t.Context(), id, credentials.NewSecret("wrong"))
	require.ErrorIs(t, err, credentials.ErrInvalidCredentials)
	_, err = store.Verify(t.Context(), credentials.ClientID(orgO, "nobody"), secret)
	require.ErrorIs(t, err, credentials.ErrInvalidCredentials)
	assert.Equal(t, []string{"$2a$05", "$2a$05"}, asked[2:], "who fails without an imported hash takes as long")
}
