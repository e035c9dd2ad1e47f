package lane

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// A give-back is sent again only if the last write in its slot was this client's own:
// after another's it could land twice.
func TestGiveBackIsSentAgainAfterAnOwnWriteAlone(t *testing.T) {
	for name, test := range map[string]struct {
		last, own string
		again     bool
	}{
		"own": {"own write", "own write", true}, "another's": {"not-owned", "own write", false}, "the first": {"", "", false}, "none known": {"not-owned", "", false},
	} {
		l := &Lane{}
		l.lastOp.set([]byte(test.own))
		l.sight.image = &schema.Image{Op: []byte(test.last)}
		d := &delivery{givesBack: true}
		l.prepare(d)
		assert.Equal(t, test.again, d.lastIsOwn, name)
		assert.Equal(t, test.again, d.rule == schema.OpLast, name)
	}
}
