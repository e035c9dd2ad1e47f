package schema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What is wrong is told in characters, with all that is allowed.
func TestIdentifierTexts(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{CheckEntity("mötör"), `"mötör" contains 'ö'; use letters, digits and _ . - : @`},
		{CheckEntity("é"), `"é" starts with 'é'; start with a letter or digit`},
		{CheckEntity("a/b"), `"a/b" contains '/'; use letters, digits and _ . - : @`},
		{CheckResource("a#b"), `"a#b" contains '#'; use letters, digits and _ . - : @ /`},
		{CheckResource("a/b"), ""},
		{CheckLimitName("tpmé"), `"tpmé" contains 'é'; use letters, digits and _ . -`},
		{CheckLimitName("用户"), `"用户" starts with '用'; start with a letter`},
		{CheckLimitName("1rpm"), `"1rpm" starts with '1'; start with a letter`},
		{CheckLimitName("r1_.-"), ""},
		{CheckEntity(strings.Repeat("x", 256)), ""},
		{CheckEntity(strings.Repeat("é", 257)), "has 257 characters; at most 256 are allowed"},
		{CheckLimitName(strings.Repeat("x", 65)), "has 65 characters; at most 64 are allowed"},
		{CheckLimitName(strings.Repeat("x", 64)), ""},
		{CheckLimitName("azAZ09"), ""},
		{CheckLimitName("a`"), "\"a`\" contains '`'; use letters, digits and _ . -"},
		{CheckLimitName("a{"), `"a{" contains '{'; use letters, digits and _ . -`},
		{CheckLimitName("a["), `"a[" contains '['; use letters, digits and _ . -`},
		{CheckLimitName("a@"), `"a@" contains '@'; use letters, digits and _ . -`},
		{CheckLimitName("aš"), `"aš" contains 'š'; use letters, digits and _ . -`}, // its low byte is an 'a'
		{CheckLimitName("Zz"), ""},
		{CheckLimitName("zA"), ""},
		{CheckLimitName("["), `"[" starts with '['; start with a letter`},
		{CheckEntity("a/"), `"a/" contains '/'; use letters, digits and _ . - : @`}, // before '0'
		{CheckEntity("a;"), `"a;" contains ';'; use letters, digits and _ . - : @`}, // after ':'
		{CheckEntity("0"), ""},
		{CheckEntity("9"), ""},
		{CheckEntity("Z"), ""},
		{CheckEntity(":"), `":" starts with ':'; start with a letter or digit`}, // after '9'
		{CheckEntity("a\xff"), `"a\xff" contains '�'; use letters, digits and _ . - : @`},
	} {
		assert.Equal(t, test.want, test.got)
	}
}
