package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// MostNeeds is how many limits Needs are of at most.
const MostNeeds = 4

// Needs are what a take needs of token buckets, in millitokens, by the place of the limit in a
// configuration; up to 0 for nothing.
type Needs [MostNeeds]int64

// Denial is what memory made of the last needs that were denied. Who comes in the same
// millisecond, as the denied do, needs no arithmetic again. The zero value remembers nothing.
type Denial struct {
	image *schema.Image
	now   int64
	needs Needs // 0 for what was not needed
	// Outlooks are by the place of the limit in the configuration; set of what is needed.
	Outlooks [MostNeeds]bucket.Outlook
}

// Denies reports whether an image denies needs at now, and remembers the outlooks. It is false
// where another decision has to be made: of a limit that the image does not show, and of a
// quota. All calls are of one configuration, without limits in shadow.
func (d *Denial) Denies(m *schema.Image, cfg *Config, needs *Needs, now int64) bool {
	if d.image != m || d.now != now {
		d.image, d.now, d.needs = m, now, Needs{}
	}
	denied := false
	for i := range cfg.Limits {
		need := needs[i]
		if need <= 0 {
			continue
		}
		if d.needs[i] != need {
			j := cfg.PlaceIn(m, i)
			if j < 0 || m.Limits[j].Ghost || m.Limits[j].IsQuota() {
				return false
			}
			d.needs[i], d.Outlooks[i] = need, m.State(j).Outlook(now, need)
		}
		denied = denied || need > d.Outlooks[i].Level
	}
	return denied
}

// PlaceIn is where an image has limit i of the configuration; -1 if it does not.
func (c *Config) PlaceIn(m *schema.Image, i int) int {
	name := c.Limits[i].Name
	if i < len(m.Set.Names) && m.Set.Names[i] == name { // nearly always
		return i
	}
	return m.Set.Index(name)
}
