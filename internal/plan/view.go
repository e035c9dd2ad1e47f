package plan

import "github.com/dynalimit/dynalimit/internal/schema"

// Standing is the relation of a configuration to the one in a bucket.
type Standing uint8

// The relations of a configuration to a bucket's.
const (
	Current Standing = iota // the same
	Newer                   // to be claimed
	Older                   // the bucket's own decides
	Unsure                  // too close to tell: read the configuration again
	Rival                   // of a plan given by calls, while other calls give another plan: the two take turns
	Early                   // read before the end of a raise that it leaves out: the bucket's own decides
)

// Compare relates a configuration to the image's. seenTick is the tick at which this process first saw the
// image's fingerprint. A configuration read after that is newer, even if the clocks say otherwise.
func Compare(m *schema.Image, cfg *Config, seenTick int64) Standing {
	switch {
	case m == nil || m.Fingerprint == nil || !m.HasRefilled:
		return Newer
	case string(m.Fingerprint) == string(cfg.Fingerprint):
		return Current
	case cfg.Override:
		return Newer
	case cfg.isBeforeRaiseEnd(m):
		return Early
	case cfg.From().Given:
		return Rival
	case cfg.Tick > seenTick:
		return Newer
	}
	stored := m.ConfigRead + configMarginMS // the instant itself
	switch {
	case cfg.ReadAt > stored+configMarginMS:
		return Newer
	case cfg.ReadAt < stored-configMarginMS:
		return Older
	}
	return Unsure
}

// View is an image under the deciding configuration at one instant. Its rows have the worth of each limit.
// Its methods change neither the image nor the configuration.
type View struct {
	// Image is the last image of the bucket. It is nil if the bucket does not exist.
	Image *schema.Image
	// Config is the deciding configuration. It is nil if nothing limits the bucket any more.
	Config *Config
	// Adopt means that the write brings Config: it changes parameters and adds limits.
	Adopt bool
	// Now is the instant of the decision, in Unix ms.
	Now int64
	// InFlight are the slots of the process's open calls; nil without one.
	InFlight *InFlight
}

// Missing returns the first limit that the bucket does not have and the write does not add; "" if every limit
// is there.
func (v View) Missing(amounts []Signed) string {
	for _, a := range amounts {
		if !v.Image.Holds(a.Name) && (v.Image != nil && !v.Adopt || v.Config.Index(a.Name) < 0) {
			return a.Name
		}
	}
	return ""
}

// Overfull returns the limits that left the configuration and have not refilled yet, if they and the
// configured ones exceed the size of a claim. longest is the time in ms until the last of them is full. It
// returns nil if a claim can carry them all. The view adopts the configuration.
func (v View) Overfull() (waiting []string, longest int64) {
	if v.Image == nil || len(v.Image.Set.Names)+len(v.Config.Limits) <= schema.MaxStored {
		return nil, 0
	}
	for i, name := range v.Image.Set.Names {
		l := &v.Image.Limits[i]
		if l.Ghost || v.Config.Index(name) >= 0 {
			continue
		}
		if wait := v.Image.State(i).Wait(v.Now, l.Burst); wait > 0 {
			waiting, longest = append(waiting, name), max(longest, wait)
		}
	}
	if len(waiting)+len(v.Config.Limits) <= schema.MaxStored {
		return nil, 0
	}
	return waiting, longest
}

// Reading returns the view as a reading, for statuses and forecasts.
func (v View) Reading() Reading { return Reading{Image: v.Image, Config: v.Config, Now: v.Now} }
