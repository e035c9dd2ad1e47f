package plan

import "github.com/dynalimit/dynalimit/internal/schema"

// Phase is the time between two ends of raises, in Unix ms of DynamoDB's clock. Before and after it, the same
// reading of the configuration has other limits.
type Phase struct {
	// Since is the end of a raise that the limits leave out, although it had not ended when they were read; 0
	// without such a raise.
	Since int64
	// Until is the first end of a raise that the limits have, and After the configuration from then on; 0 and
	// nil without such a raise.
	Until int64
	After *Config
}

// AsOf returns the configuration to compare with an image's: c without the raises that had ended, by either
// clock, when the image's was read. Otherwise two clocks that differ about an end would take turns. It returns
// c itself if m or c is nil.
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

// isBeforeRaiseEnd reports whether both this configuration and the image's were read before the end of a
// raise that this one leaves out.
func (c *Config) isBeforeRaiseEnd(m *schema.Image) bool {
	phase := c.From().Phase
	return phase != nil && m.ConfigRead < phase.Since-configMarginMS
}
