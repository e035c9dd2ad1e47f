package budgethttp

import (
	"golang.org/x/crypto/bcrypt"

	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// mostBcryptCost bounds what a login spends on a hash: 14 takes about a second.
const mostBcryptCost = 14

// VerifyBcrypt reports whether a bcrypt hash of another system ($2a$, $2b$, $2y$) is a
// secret's, for credentials.Options.ImportedHash. Hashes of a cost above 14 fit nothing. As
// everywhere with bcrypt, what a secret has beyond 72 bytes does not matter.
func VerifyBcrypt(hash, secret credentials.Secret) bool {
	cost, err := bcrypt.Cost([]byte(hash.Reveal()))
	if err != nil || cost > mostBcryptCost {
		return false
	}
	return bcrypt.CompareHashAndPassword([]byte(hash.Reveal()), []byte(secret.Reveal())) == nil
}
