package plan

import "github.com/dynalimit/dynalimit/internal/schema"

// Standing says how a configuration relates to the one that a bucket was written with.
type Standing uint8

// How a configuration relates to a bucket's.
const (
	Current Standing = iota // the same
	Newer                   // to be claimed
	Older                   // the bucket's own decides
	Unsure                  // too close to tell: read the configuration again
	Rival                   // of a plan that calls give, and others give another: they take turns
	Early                   // read before the end of a raise that it leaves out: the bucket's own decides
)

// Compare says how a configuration relates to the image's. seenTick is when this process
// first saw the image's fingerprint: a configuration read after that is newer, whatever
// the clocks say.
func Compare(m *schema.Image, cfg *Config, seenTick int64) Standing {
	switch {
	case m == nil || m.Fingerprint == nil || !m.HasRefilled:
		return Newer
	case string(m.Fingerprint) == string(cfg.Fingerprint):
		return Current
	case cfg.Override:
		return Newer
	case cfg.early(m):
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

// View is an image under the configuration that decides, at one instant. Its rows say what each limit is
// worth. Its methods change nothing of it.
type View struct {
	// Image is the bucket as last seen, nil for none.
	Image *schema.Image
	// Config is the configuration that decides, nil when nothing limits the
	// bucket any more.
	Config *Config
	// Adopt means that the write brings Config, so that parameters change and limits are
	// added.
	Adopt bool
	// Now is the instant of the decision, in Unix ms.
	Now int64
}

// NewView puts an image under a configuration that relates to it as s says.
func NewView(m *schema.Image, cfg *Config, s Standing, now int64) View {
	return View{Image: m, Config: cfg, Adopt: s == Newer, Now: now}
}

// Missing returns the first limit that neither the image, nor a configuration that is brought, has; ""
// if there is none.
func (v View) Missing(amounts []Signed) string {
	for _, a := range amounts {
		if !v.Image.Holds(a.Name) && (v.Image != nil && !v.Adopt || v.Config.Index(a.Name) < 0) {
			return a.Name
		}
	}
	return ""
}

// Overfull names the limits that left the configuration and have not refilled
// yet, if they and the configured ones are more than a claim can carry, and says
// in how many ms the last of them has; nil when a claim can carry them all. The view adopts the configuration.
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

// Reading is what the view's bucket holds, for statuses and forecasts.
func (v View) Reading() Reading { return Reading{Image: v.Image, Config: v.Config, Now: v.Now} }
