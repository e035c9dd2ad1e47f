package budgethttp

import (
	"golang.org/x/crypto/bcrypt"

	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// mostBcryptCost bounds the cost of checking a hash: 14 takes about a second.
const mostBcryptCost = 14

// VerifyBcrypt reports whether a secret matches a bcrypt hash of another system ($2a$, $2b$,
// $2y$), for credentials.Options.ImportedHash. Hashes with a cost above 14 never match. As
// always with bcrypt, bytes of the secret beyond 72 are ignored.
func VerifyBcrypt(hash, secret credentials.Secret) bool {
	cost, err := bcrypt.Cost([]byte(hash.Reveal()))
	if err != nil || cost > mostBcryptCost {
		return false
	}
	return bcrypt.CompareHashAndPassword([]byte(hash.Reveal()), []byte(secret.Reveal())) == nil
}
