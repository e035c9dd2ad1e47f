package main

// with is a variation of settings.
func with(s settings, name string, change func(s *settings)) settings {
	s.Name += ", " + name
	change(&s)
	return s
}

// few and many are the trees that the page proposes for 100,000 processes at 0.3 and
// at 5 calls a second; of many, a tenth is simulated.
func few() settings  { return steady(100_000, 0.3, 64, 1000, 0) }
func many() settings { return steady(100_000, 5, 510, 2000, 1000).scaled() }

// hot lets the first group call twice as often as the others do on average.
func hot(s *settings) { s.Hot = 2 }

// pulsing lets everybody call twice as often for 5 s and then not at all.
func pulsing(s *settings) { s.Pulse = 5 }

// tight is a limit that is hardly above the calls, with a burst of a second.
func tight(s *settings) { s.Limit, s.Burst, s.Empty = 1.02, 1, true }

// scarce is a limit of 0.4 of the calls.
func scarce(s *settings) { s.Limit, s.Burst, s.Empty = 0.4, 1, true }

// sizes are fan-outs and horizons at steady calls.
func sizes() []settings {
	return []settings{
		steady(100_000, 0.3, 32, 1000, 0),
		few(),
		steady(100_000, 0.3, 64, 250, 0),
		steady(100_000, 0.3, 512, 1000, 0),
		steady(100_000, 5, 130, 1000, 5000).scaled(),
		steady(100_000, 5, 260, 1000, 1000).scaled(),
		many(),
		with(many(), "ages carried", func(s *settings) { s.Carried = true }),
		steady(100_000, 5, 1000, 3000, 0).scaled(),
	}
}

// loads are the proposed trees under other loads.
func loads() (all []settings) {
	for _, s := range []settings{few(), many()} {
		all = append(all,
			with(s, "on and off", pulsing),
			with(s, "one hot group", hot),
			with(s, "limit 1.02 ×", tight),
			with(s, "limit 0.4 ×", scarce),
			with(s, "limit 0.4 ×, one hot group", func(s *settings) { scarce(s); hot(s) }),
			with(s, "limit 0.4 ×, from full", func(s *settings) { s.Limit, s.Burst, s.WarmUp = 0.4, 3, 0 }),
		)
	}
	return all
}

// beside are other ways to share a limit: a tree, a limit that is split for good, and,
// for what they cost, single buckets.
func beside() []settings {
	tree := with(few(), "limit 1.25 ×, one group twice as hot", func(s *settings) { hot(s); s.Burst = 1 })
	return []settings{
		tree, with(tree, "split", func(s *settings) { s.Split = true }),
		steady(2500, 0.3, 0, 0, 0), steady(350, 5, 0, 0, 1000), steady(1800, 5, 0, 0, 5000),
	}
}

// most is how many processes, to within 5 %, one bucket takes at so many calls a second each.
func most(each float64, horizon int64) int {
	fits := func(n int) bool {
		s := steady(n, each, 0, 0, horizon)
		s.WarmUp, s.For = 10, 5
		return simulate(s).root.fits()
	}
	low, high := 1, 2
	for fits(high) {
		low, high = high, 2*high
	}
	for high-low > 1 && float64(high-low) > 0.05*float64(low) {
		if mid := (low + high) / 2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}
