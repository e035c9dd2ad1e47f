package plan

import "github.com/dynalimit/dynalimit/internal/schema"

// Phase is the time between two ends of raises, in Unix ms of DynamoDB's clock, for which one reading
// of the configuration says other limits than before and after.
type Phase struct {
	// Since is the end of a raise that the limits leave out, and that they were read before; 0 for
	// none.
	Since int64
	// Until is the first end of a raise that the limits have, and After the configuration from then
	// on; 0 and nil for none.
	Until int64
	After *Config
}

// AsOf returns the configuration to compare with an image's: without the raises that had ended when
// the image's was read, by whichever clock. So two clocks that differ about an end do not take turns.
func (c *Config) AsOf(m *schema.Image) *Config {
	for c != nil && m != nil {
		phase := c.From().Phase
		if phase == nil || phase.After == nil || m.ConfigRead < phase.Until-configMarginMS {
			break
		}
		c = phase.After
	}
	return c
}

// early reports whether the configuration was read before the end of a raise that it leaves out, and
// the image's was too.
func (c *Config) early(m *schema.Image) bool {
	phase := c.From().Phase
	return phase != nil && m.ConfigRead < phase.Since-configMarginMS
}
