package bucket

// Outlook is the level of a limit at an instant and its waits from then on: the results of State.Level and
// State.Wait in one pass.
type Outlook struct {
	// Level is in millitokens. Wait is until a need fits, and Full until the bucket is full, in
	// ms; either is Never as that of State.Wait.
	Level, Wait, Full int64
}

// Outlook looks ahead from now for a need.
func (s State) Outlook(now, need int64) Outlook {
	if s.Period <= 0 {
		return Outlook{s.quotaLevel(now), s.quotaWait(now, need), s.quotaWait(now, s.Burst)}
	}
	begun := s.begun(s.Refilled)
	level := s.level(now, begun)
	return Outlook{level, s.wait(now, need, level, begun), s.wait(now, s.Burst, level, begun)}
}
