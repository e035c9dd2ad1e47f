package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// MostNeeds is the largest number of limits in Needs.
const MostNeeds = 4

// Needs are the millitokens that a take needs of token buckets, by the limit's index in a configuration. 0 or
// less means nothing.
type Needs [MostNeeds]int64

// Denial caches the outlooks of the last denied needs. Denied callers come back within the same millisecond,
// and then no outlook is computed again. The zero value is empty.
type Denial struct {
	image *schema.Image
	now   int64
	needs Needs // 0 for a limit that was not needed
	// Outlooks are by the limit's index in the configuration, and set for needed limits only.
	Outlooks [MostNeeds]bucket.Outlook
}

// Denies reports whether an image denies needs at now, and stores the outlooks. It returns false for a quota
// and for a limit that the image lacks: the caller then has to decide in another way. Every call must pass
// the same configuration, without limits in shadow.
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
			if j < 0 || m.Limits[j].Ghost || m.Limits[j].Period <= 0 {
				return false
			}
			d.needs[i], d.Outlooks[i] = need, m.State(j).Outlook(now, need)
		}
		denied = denied || need > d.Outlooks[i].Level
	}
	return denied
}

// PlaceIn returns the index in an image of limit i of the configuration; -1 if the image lacks it.
func (c *Config) PlaceIn(m *schema.Image, i int) int {
	name := c.Limits[i].Name
	if i < len(m.Set.Names) && m.Set.Names[i] == name { // nearly always
		return i
	}
	return m.Set.Index(name)
}
